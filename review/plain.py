"""Frozen values as what JSON knows, and back by their types. Infinite and NaN become null."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from domain.errors import InputError

__all__ = ["built", "plain"]


def plain(value: Any) -> Any:
    """Dataclasses as objects, tuples as arrays, enums as their values."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def built(kind: Any, told: Any, *, where: str) -> Any:
    """The value of a type that `plain` wrote; what has a default may be missing, for it came later."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind, told, where)
    if origin is tuple:
        return _tuple(get_args(kind), told, where)
    if is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, told, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(told)
        except ValueError:
            raise _wrong(told, where, f"one of {', '.join(str(e.value) for e in kind)}") from None
    return _simple(kind, told, where)


def _simple(kind: Any, told: Any, where: str) -> Any:
    if kind is float and isinstance(told, int | float) and not isinstance(told, bool):
        return float(told)
    if kind is bool and isinstance(told, bool):
        return told
    if kind is int and isinstance(told, int) and not isinstance(told, bool):
        return told
    if kind is str and isinstance(told, str):
        return told
    raise _wrong(told, where, getattr(kind, "__name__", str(kind)))


def _optional(kind: Any, told: Any, where: str) -> Any:
    if told is None:
        return None
    (only,) = (each for each in get_args(kind) if each is not type(None))
    return built(only, told, where=where)


def _tuple(kinds: tuple[Any, ...], told: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(told, list):
        raise _wrong(told, where, "an array")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(told)
    if len(kinds) != len(told):
        raise _wrong(told, where, f"{len(kinds)} values")
    return tuple(
        built(kind, each, where=f"{where}[{place}]")
        for place, (kind, each) in enumerate(zip(kinds, told, strict=True))
    )


def _object(kind: type, told: Any, where: str) -> Any:
    if not isinstance(told, Mapping):
        raise _wrong(told, where, "an object")
    hints = _hints(kind)
    later = {each.name for each in fields(kind) if each.default is not MISSING}
    missing = [name for name in hints if name not in told and name not in later]
    if missing:
        raise _wrong(told, where, f"an object with {', '.join(missing)}")
    try:
        return kind(
            **{
                name: built(hint, told[name], where=f"{where}.{name}")
                for name, hint in hints.items()
                if name in told
            }
        )
    except ValueError as error:
        raise InputError(
            str(error), where=where, remedy="Give a file that `to_json` wrote."
        ) from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _wrong(told: Any, where: str, wanted: str) -> InputError:
    return InputError(
        f"{str(told)[:80]!r} is not {wanted}",
        where=where,
        remedy="Give a file that `to_json` wrote.",
    )
