"""A chart as comma-separated values: one row per value or range that is drawn, instants in UTC."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import unescape
from typing import Any

from dashboard.figures import Figure

__all__ = ["COLUMNS", "chart_csv"]

COLUMNS = ("at", "until", "series", "value", "low", "high", "unit")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CORNERS = 6  # of a box, and the gap after it

Row = tuple[str, str, str, str, str, str, str]


def chart_csv(figure: Figure) -> str:
    """What is drawn of values and ranges. An absent value is absent, not empty and not zero."""
    unit = str(figure.get("layout", {}).get("yaxis", {}).get("ticksuffix", "")).strip()
    rows: list[Row] = [row for trace in figure.get("data", ()) for row in _rows(trace, unit)]
    rows.sort(key=lambda row: (row[2], row[0]))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return written.getvalue()


def _rows(trace: dict[str, Any], unit: str) -> Iterator[Row]:
    if trace.get("type") not in ("scatter", "scattergl"):
        return
    name = _text(unescape(str(trace.get("name", ""))))
    x, y = list(trace.get("x", ())), list(trace.get("y", ()))
    if trace.get("fill") == "toself":
        yield from _boxes(name, x, y, unit)
    elif trace.get("hoverinfo") != "skip":
        for at, value in zip(x, y, strict=True):
            if value is not None and value == value:  # noqa: PLR0124 - NaN is a gap
                yield (_instant(at), "", name, _number(value), "", "", unit)


def _boxes(name: str, x: Sequence[Any], y: Sequence[Any], unit: str) -> Iterator[Row]:
    """A range is drawn as a box: begin low, begin high, end high, end low, and round."""
    plain = name.removesuffix(" (range)")
    for first in range(0, len(x), _CORNERS):
        since, until, low, high = x[first], x[first + 2], y[first], y[first + 1]
        yield (_instant(since), _instant(until), plain, "", _number(low), _number(high), unit)


def _instant(at_ms: Any) -> str:
    if not isinstance(at_ms, int | float) and not hasattr(at_ms, "item"):
        return _text(str(at_ms))
    at = datetime.fromtimestamp(float(at_ms) / 1000, UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(value: Any) -> str:
    return f"{float(value):.7g}"


def _text(text: str) -> str:
    """A name that a spreadsheet would take for a formula is quoted."""
    return f"'{text}" if text.startswith(_FORMULA) else text
