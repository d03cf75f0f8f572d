"""The status page: how Stagewatch itself is, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import Reader
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region
from dashboard.health_alerts import evaluation_lines, receiver_lines
from dashboard.health_data import (
    cloudwatch_lines,
    ingest_lines,
    service_lines,
    sidecar_lines,
    store_lines,
)
from dashboard.health_line import Health, health_table
from dashboard.parts import SPOKEN_WHEN_CHANGED, badge, name_text, said
from dashboard.theme import LOOKS, State
from dashboard.url import View
from dashboard.viewer import Viewer
from dashboard.vitals import ELSEWHERE, Vitals, Witness
from domain.errors import StagewatchError

__all__ = ["StatusPage"]

_TITLES = {
    "alerting": "Alerting",
    "services": "Data by service",
    "sidecars": "Sidecars",
    "ingest": "Collector",
    "store": "Store",
}
_COUNTED = {
    State.PAGE: "broken",
    State.TICKET: "to look at",
    State.NOT_OBSERVED: "not known",
}


class StatusPage:
    """The page; `witness` says how this process is."""

    def __init__(self, witness: Witness | None = None) -> None:
        self._witness = witness

    def content(self, reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
        """The page at one instant."""
        vitals = ELSEWHERE if self._witness is None else self._witness.vitals()
        found = _sections(reader, ledger, view, viewer, vitals)
        every = [line for lines in found.values() for line in lines]
        worst = min((line.state for line in every if line.state in _COUNTED),
                    key=list(State).index, default=State.HEALTHY)  # fmt: skip
        title = f"{LOOKS[worst].symbol} Status"
        regions = common_regions(view, viewer, newest_at_s=viewer.now_s, title=title)
        told = {name: health_table(_TITLES[name], lines) for name, lines in found.items()}
        return Content(title=title, regions=regions | told | {"state": _headline(every)})

    def page(self, view: View, shown: Content) -> list[Component]:
        """The page with its content; a refresh fills its regions in place."""
        sections = [html.Section(region(name, shown), **said(t)) for name, t in _TITLES.items()]
        return frame(
            view,
            shown,
            [
                html.H1("Status", className="unseen"),
                region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
                *sections,
            ],
        )


def _sections(
    reader: Reader, ledger: Ledger, view: View, viewer: Viewer, vitals: Vitals
) -> Mapping[str, Sequence[Health]]:
    """Each by itself: where the store is gone, the rest is still told."""
    window, now_s = view.window(viewer.now_s), viewer.now_s
    counted: dict[str, float] = {}

    def ingest() -> Iterable[Health]:
        counted.update(reader.health())
        return ingest_lines(reader, counted, vitals, now_s)

    def sidecars() -> Iterable[Health]:
        return [*sidecar_lines(reader, window), *cloudwatch_lines(reader, window)]

    return {
        "alerting": [
            *_safely(
                "Evaluation", lambda: evaluation_lines(ledger.standings(spark_s=0), vitals, now_s)
            ),
            *receiver_lines(vitals, now_s),
        ],
        "services": _safely("Services", lambda: service_lines(reader.freshness(window), now_s)),
        "sidecars": _safely("Sidecars", sidecars),
        "ingest": _safely("Collector", ingest),
        "store": _safely("Store", lambda: store_lines(counted, vitals)),
    }


def _safely(what: str, lines: Callable[[], Iterable[Health]]) -> list[Health]:
    """What cannot be read is a line of its own: this page is for just that night."""
    try:
        return list(lines())
    except StagewatchError as error:
        return [
            Health(
                what=what,
                state=State.PAGE,
                now=error.problem,
                note=error.where,
                step=error.remedy,
                word="cannot be read",
            )
        ]


def _headline(every: Sequence[Health]) -> Component:
    tally = Counter(line.state for line in every if line.state in _COUNTED)
    if not tally:
        return html.P([badge(State.HEALTHY, word="Stagewatch is well.")])
    first = next(line for state in State for line in every if line.state is state)
    order = [state for state in State if tally[state]]
    told = [badge(state, word=f"{tally[state]} {_COUNTED[state]}") for state in order]
    return html.Div(
        [
            html.P(told, className="tally"),
            html.P([name_text(first.what), ": ", name_text(first.now)]),
        ]
    )
