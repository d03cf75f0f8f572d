"""Minutes of the past for a backtest: what was kept when they were judged, else what the store tells."""

from __future__ import annotations

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alerts.codec import definition_from, indicator_text
from alerts.definition import Definition
from alerts.records import minutes
from alerts.tables import PromiseRow, RevisionRow, SeriesRow
from collector.query import Reader, Window
from domain.indicator import Indicator
from domain.slice import Slice

__all__ = ["in_force", "past_minutes"]

_STEP_S = 24 * 3600


def in_force(state: Engine) -> dict[str, Definition]:
    """What is promised now, by id."""
    asked = (
        select(RevisionRow.definition)
        .join(PromiseRow, PromiseRow.revision_id == RevisionRow.id)
        .where(PromiseRow.active)
    )
    with Session(state) as session:
        found = [definition_from(text) for text in session.scalars(asked)]
    return {definition.id: definition for definition in found}


def past_minutes(
    reader: Reader, state: Engine | None, indicator: Indicator, window: Window
) -> list[Slice]:
    """Every whole minute of the window; what neither knows is not observed."""
    kept = _kept(state, indicator, window) if state is not None else {}
    found: list[Slice] = []
    for begin_s in range(window.since_s, window.until_s, _STEP_S):
        part = Window(since_s=begin_s, until_s=min(begin_s + _STEP_S, window.until_s))
        found += reader.slices(indicator, part)
    return [each if each.observed else kept.get(each.minute_at_s, each) for each in found]


def _kept(state: Engine, indicator: Indicator, window: Window) -> dict[int, Slice]:
    """As judged then, whichever objective asked for the same indicator."""
    said = indicator_text(indicator)
    with Session(state) as session:
        series = session.scalars(select(SeriesRow.id).where(SeriesRow.indicator == said))
        return {
            each.minute_at_s: each
            for series_id in series
            for each in minutes(session, series_id, window.since_s, window.until_s)
        }
