"""Goodput of every split with its interval against the promise, as an inline SVG without colour alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from review.report_rows import advised, in_order
from review.review_value import Review
from review.verdict import Alternative
from review.wording import share

__all__ = ["intervals"]

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 20, 136, 64, 18, 4
_LONGEST = 18
_MOST = 20


def intervals(review: Review) -> str:
    """Empty where there is nothing to compare. The order is that of the table."""
    found = in_order(review)[:_MOST]
    if len(found) < 2:
        return ""
    scale, low, high = _scale(found, review.promise.target)
    height = _TOP + _ROW * len(found) + _BOTTOM
    at = scale(review.promise.target)
    parts = [
        f'<line class="target" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 2}" y2="{height}"/>',
        _text(at, 11, _anchor(at), f"promised {share(review.promise.target, digits=1)}"),
    ]
    parts += [
        _row(each, scale, _TOP + _ROW * place + _ROW / 2, strong=each is advised(review))
        for place, each in enumerate(found)
    ]
    said = (
        f"Goodput of {len(found)} splits between {share(low)} and {share(high)};"
        " the table has the numbers"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{said}">'
        f"{''.join(parts)}</svg>"
    )


def _scale(
    found: Sequence[Alternative], target: float
) -> tuple[Callable[[float], float], float, float]:
    ends = [each.sureness.goodput_interval for each in found]
    low = min(target, *(each.low for each in ends))
    high = max(target, *(each.high for each in ends))
    span = max(high - low, 1e-6)

    def scale(value: float) -> float:
        return _LEFT + (value - low) / span * (_WIDTH - _LEFT - _RIGHT)

    return scale, low, high


def _anchor(at: float) -> str:
    return "end" if at > _WIDTH / 2 else "start"


def _row(each: Alternative, scale: Callable[[float], float], y: float, *, strong: bool) -> str:
    interval, value = each.sureness.goodput_interval, each.sureness.goodput
    name = str(each.split)
    name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    kind = ' class="strong"' if strong else ""
    end = max(scale(interval.high), scale(value))
    return (
        f"<g{kind}>"
        f'<text x="{_LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        f'<line x1="{scale(interval.low):.1f}" x2="{scale(interval.high):.1f}"'
        f' y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<circle cx="{scale(value):.1f}" cy="{y:.1f}" r="{5 if strong else 3.5}"/>'
        f'<text x="{end + 8:.1f}" y="{y + 4:.1f}">{share(value, digits=1)}</text></g>'
    )


def _text(x: float, y: float, anchor: str, told: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(told)}</text>'
