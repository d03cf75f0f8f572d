"""Numbers of records in a row, from the first to before the second."""

from collections.abc import Iterable

__all__ = ["Span", "merged", "uncovered"]

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same numbers in as few spans as they need, sorted."""
    joined: list[Span] = []
    for first, until in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], until))
        else:
            joined.append((first, until))
    return joined


def uncovered(span: Span, spans: Iterable[Span]) -> list[Span]:
    """The parts of a span that lie in none of the others."""
    at, end = span
    found: list[Span] = []
    for first, until in sorted(spans):
        if until <= at or first >= end:
            continue
        if first > at:
            found.append((at, first))
        at = max(at, until)
    return [*found, (at, end)] if at < end else found
