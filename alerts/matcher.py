"""Matchers of a silence: `service=chat`, `model!=a`, `replica=~gpu-.*`, `zone!~eu.*`.

Expressions are RE2's, which takes time in proportion to the text whatever somebody writes, and they
match whole values. A label that is absent has the empty value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]

from domain.errors import InputError
from domain.labels import MAX_LABEL_LENGTH

__all__ = ["Matcher", "matcher_of", "matchers_of"]

_MOST = 20
_OPERATORS = ("!=", "=~", "!~", "=")
_NAME = re2.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_EXAMPLE = "Write `service=chat`, `service!=chat`, `replica=~gpu-.*` or `replica!~gpu-.*`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """One condition on one label; `objective`, `severity` and `tier` are matched like labels."""

    name: str
    operator: str
    value: str

    def __str__(self) -> str:
        quoted = self.value[:1] == '"'  # why: what stands between quotes is taken without them
        return (
            f'{self.name}{self.operator}"{self.value}"'
            if quoted
            else (f"{self.name}{self.operator}{self.value}")
        )

    def matches(self, about: Mapping[str, str]) -> bool:
        value = about.get(self.name, "")
        if self.operator in ("=", "!="):
            return (value == self.value) is (self.operator == "=")
        written = value.encode(errors="replace").decode()  # why: half a character matches nothing
        matched = _expression(self.value).fullmatch(written) is not None
        return matched is (self.operator == "=~")


def matcher_of(text: str) -> Matcher:
    """The matcher that a text says."""
    found = [(text.find(each), each) for each in _OPERATORS if each in text]
    if not found:
        raise _wrong(text, "is no matcher")
    # why the longest at the same place: `a=~b` holds `=` too, and `a!=b` is no `a!` equal to `b`
    place, operator = min(found, key=lambda each: (each[0], -len(each[1])))
    name, value = text[:place].strip(), text[place + len(operator) :].strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    if _NAME.fullmatch(name) is None:
        raise _wrong(text, f"names no label: {name[:80]!r}")
    if len(value) > MAX_LABEL_LENGTH:
        raise _wrong(text, f"has a value of more than {MAX_LABEL_LENGTH} characters")
    if operator.endswith("~"):
        _compiled(text, value)
    return Matcher(name=name, operator=operator, value=value)


def matchers_of(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Matchers, sorted: the same set is the same tuple."""
    found = {matcher_of(each) for each in texts}
    if len(found) > _MOST:
        raise InputError(
            f"has more than {_MOST} matchers", where="silence", remedy="Use an expression."
        )
    return tuple(sorted(found, key=str))


def _compiled(text: str, expression: str) -> None:
    try:
        _expression(expression)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise _wrong(text, f"holds no RE2 expression ({said})") from error


@functools.lru_cache(maxsize=1024)
def _expression(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(text, options)


def _wrong(text: str, problem: str) -> InputError:
    return InputError(problem, where=f"matcher {text[:80]!r}", remedy=_EXAMPLE)
