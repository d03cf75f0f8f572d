"""Which thresholds the sources decide exactly, and what lies nearest where one is not decided."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from alerts.promise import Definition
from alerts.quantity import duration_text
from collector.query import Reader, Selection, Window
from domain.indicator import GoodputIndicator, Indicator, LatencyIndicator, Limit

__all__ = ["decided"]


def decided(reader: Reader, definition: Definition, window: Window) -> list[str]:
    """One line per threshold that a source of this window leaves in doubt, or that none measures."""
    indicator = definition.objective.indicator
    found = []
    for limit in _limits(indicator):
        asked = LatencyIndicator(
            metric=limit.metric, threshold_s=limit.threshold_s, where=indicator.where
        )
        edges = reader.edges_around(asked, window)
        if edges is not None:
            found += list(_told(limit, edges))
        elif not _measured(reader, asked, window):
            found.append(
                f"note: nobody has measured {limit.metric} there in this time: "
                "look whether the labels are right, or send data first."
            )
    return found


def _measured(reader: Reader, asked: LatencyIndicator, window: Window) -> bool:
    told = reader.latency(asked.metric, Selection(window=window, where=asked.where))
    return any(point.distribution.n for each in told for point in each.points)


def _limits(indicator: Indicator) -> tuple[Limit, ...]:
    return indicator.limits if isinstance(indicator, LatencyIndicator | GoodputIndicator) else ()


def _told(limit: Limit, edges_s: tuple[Fraction, Fraction]) -> Iterator[str]:
    below_s, above_s = edges_s
    said = f"{limit.metric} <= {duration_text(limit.threshold_s)}"
    if below_s == above_s == limit.threshold_s:
        return
    if below_s == above_s:
        side = "top" if below_s < limit.threshold_s else "lowest"
        yield (
            f"warning: {said} is beyond the {side} edge of its source, {duration_text(below_s)}: "
            "no page can be sure there. Use a threshold on that side, or send spans."
        )
        return
    yield (
        f"note: the source of {said} is coarse: it decides {duration_text(below_s)} and "
        f"{duration_text(above_s)} exactly. Between them a page counts the surely bad and a "
        "ticket the possibly bad; spans make it exact."
    )
