"""Templates for texts of one's own: Jinja, so small that none can run long or grow without end.

Values may be shown, compared, filtered and looped over once. There are no calls, no assignments,
no loops in loops and no operators on texts, so time and size are bounded by what the template and
the notification hold.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Mapping
from typing import Any

from jinja2 import ChainableUndefined, Template, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from domain.errors import ConfigError

__all__ = ["FAILURES", "LONGEST", "OUTPUT", "checked", "rendered"]

FAILURES = (TemplateError, TypeError, ValueError, ArithmeticError)
"""What a template can raise for values that it was not checked with."""

LONGEST = 4000
"""Characters that a template may have."""

OUTPUT = 16_000
"""Characters that are taken of what it makes."""

_PATIENCE_S = 0.25
_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Const,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Filter,
    nodes.Test,
    nodes.If,
    nodes.CondExpr,
    nodes.For,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Neg,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.List,
    nodes.Slice,
    nodes.Tuple,
    nodes.Keyword,
)
_FILTERS = (
    *("capitalize", "default", "first", "float", "int", "join", "last", "length", "lower"),
    *("round", "sort", "title", "trim", "truncate", "upper", "urlencode"),
)
_MEMBERS = {
    "links": ("alert", "objective", "runbook"),
    "counts": ("long", "short"),
}


class _Sandbox(ImmutableSandboxedEnvironment):
    """Operators are for numbers: a text times a million is a bomb."""

    intercepted_binops = frozenset("+-*/")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = (int, float)
        if not isinstance(left, numbers) or not isinstance(right, numbers):
            raise SecurityError(f"{operator} is for numbers; None and texts are none")
        return super().call_binop(context, operator, left, right)


def checked(
    source: str, *, where: str, names: Collection[str], samples: Mapping[str, Mapping[str, Any]]
) -> None:
    """Whether it works for each of these notifications, by name; else one clear error."""
    if len(source) > LONGEST:
        raise ConfigError(
            f"the template has {len(source)} characters",
            where=where,
            remedy=f"Keep it below {LONGEST}.",
        )
    problem = _problem(source, names)
    if problem is not None:
        raise ConfigError(problem[0], where=where, remedy=problem[1])
    for name, sample in samples.items():
        try:
            rendered(source, sample)
        except FAILURES as error:
            raise ConfigError(
                f"the template fails for a notification of kind {name!r}: {error}",
                where=where,
                remedy="Guard it with {% if … %}; `percent` and `default` take what is not known.",
            ) from error


def rendered(source: str, values: Mapping[str, Any]) -> str:
    """The text. What grows beyond its size, or takes too long, is cut there."""
    parts: list[str] = []
    size, until_s = 0, time.monotonic() + _PATIENCE_S
    for part in _compiled(source).generate(values):
        parts.append(part)
        size += len(part)
        if size > OUTPUT or time.monotonic() > until_s:
            parts.append("…")
            break
    return "".join(parts)[: OUTPUT + 1].strip()


@functools.cache
def _sandbox() -> _Sandbox:
    sandbox = _Sandbox(undefined=ChainableUndefined, autoescape=False)
    sandbox.globals.clear()  # why: range(100000) and lipsum() are long
    sandbox.filters = {name: sandbox.filters[name] for name in _FILTERS} | {
        "percent": _percent,
        "seconds": _seconds,
    }
    return sandbox


@functools.lru_cache(maxsize=256)
def _compiled(source: str) -> Template:
    return _sandbox().from_string(source)


def _problem(source: str, names: Collection[str]) -> tuple[str, str] | None:
    """What is wrong with it before any value is known, and the way out."""
    try:
        tree = _sandbox().parse(source)
        forbidden = _forbidden(tree)
        if forbidden is not None:
            return forbidden
        _compiled(source)
    except TemplateSyntaxError as error:
        return f"the template cannot be read: {error.message} (line {error.lineno})", "Mend it."
    unknown = sorted(meta.find_undeclared_variables(tree) - set(names))
    if unknown:
        return f"the template asks for {unknown[0]!r}", f"Known here: {', '.join(sorted(names))}."
    return None


def _forbidden(tree: nodes.Template) -> tuple[str, str] | None:
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _ALLOWED):
            what = type(node).__name__.lower()
            return f"a template may not use {what}", "Show, compare, filter and loop; no more."
        if isinstance(node, nodes.For) and (node.recursive or any(node.find_all(nodes.For))):
            return "a template may not loop inside a loop", "Join the inner list with `join`."
        if isinstance(node, nodes.Getattr) and (unknown := _unknown_member(node)):
            return unknown
    return None


def _unknown_member(node: nodes.Getattr) -> tuple[str, str] | None:
    if not isinstance(node.node, nodes.Name) or node.node.name not in _MEMBERS:
        return None
    name, known = node.node.name, _MEMBERS[node.node.name]
    if node.attr in known:
        return None
    return f"the template asks for {name}.{node.attr}", f"Known there: {', '.join(known)}."


def _percent(value: object) -> str:
    """A share as people read it; what is not known is said to be so."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{float(value) * 100:.3g} %" if known else "unknown"  # type: ignore[arg-type] # known


def _seconds(value: object) -> str:
    """A span as people read it."""
    if not isinstance(value, int | float):
        return "unknown"
    whole = int(value)
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if whole >= length_s and whole % length_s == 0:
            return f"{whole // length_s} {unit}"
    return f"{value:.3g} s"
