"""The fleet page: every promise, worst first, and the services beneath."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dash import dcc, html
from dash.development.base_component import Component

from alerts.ledger import Ledger, Standing
from collector.query import Freshness, Reader, Selection, Stages, Window
from dashboard.attribution import grown, short_text
from dashboard.breakdown import named_twice
from dashboard.choices import chosen, filter_field, filter_values
from dashboard.conditions import Told, condition_list, conditions_told, short_name
from dashboard.content import Content
from dashboard.flows import per_s, since_text, unfinished_text, watched
from dashboard.frame import common_regions, frame, region, tab_title
from dashboard.measure import P50, P99, before, last_week, whole_minutes
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    badge,
    empty,
    link,
    name_text,
    named_by,
    quiet,
    said,
    stage_bar,
    table,
)
from dashboard.promises import promise_table, summary, worst_first
from dashboard.quantity import NOTHING, age, quantile_text, rate, rate_unit, window_text
from dashboard.stages import compare, guilty_text
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import value_of

__all__ = ["content", "page"]

STALE_S = 120
"""A replica that has been silent for longer is not called up."""

MOST_SERVICES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """What is known of one service in the window and in the one before."""

    name: str
    freshness: Freshness | None
    now: Stages | None
    before: Stages | None
    a_week_ago: Stages | None = None

    @property
    def p99_s(self) -> float:
        found = self.now.ttft.quantile(P99) if self.now is not None else None
        return found.high_s if found is not None else 0.0


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    window = view.window(viewer.now_s) if view.live else whole_minutes(view.window(viewer.now_s))
    all_standings = ledger.standings()
    standings = [each for each in all_standings if _found(each.objective.name, view)]
    services = [each for each in _services(reader, window, view) if _found(each.name, view)]
    told = conditions_told(reader, ledger, view, viewer)
    states = {short_name(each): each.state for each in told if each.alarming} | {
        each.objective.name: each.state for each in worst_first(all_standings)
    }
    ages = [each.freshness.newest_at_s for each in services if each.freshness is not None]
    newest_at_s = max((at_s for at_s in ages if at_s is not None), default=None)
    return Content(
        title=tab_title(states),
        regions=common_regions(view, viewer, newest_at_s=newest_at_s, title=tab_title(states))
        | {
            "state": _headline(all_standings, told),
            "conditions": condition_list(told, view, viewer),
            "promises": _promises(standings, services, reader, view, viewer),
            "filters": chosen(view, viewer),
            "filter-values": filter_values(reader, window),
            "services": _service_table(services, window, view, viewer),
        },
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    heading = html.Div(
        [
            html.H2("Services", id="services-title"),
            html.Div(
                [
                    html.Label("Find", htmlFor="find", className="unseen"),
                    dcc.Input(
                        id="find",
                        type="search",
                        placeholder="Find a promise or service  /",
                        value=view.find,
                        maxLength=100,
                        autoComplete="off",
                    ),
                ],
                className="find",
            ),
            filter_field(shown),
            region("filters", shown, className="choices"),
        ],
        className="heading",
    )
    return frame(
        view,
        shown,
        [
            html.H1("Fleet", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            region("conditions", shown, **SPOKEN_WHEN_CHANGED),
            html.Section(region("promises", shown), **said("Promises")),
            html.Section([heading, region("services", shown)], **named_by("services-title")),
        ],
    )


def _found(name: str, view: View) -> bool:
    return view.find.strip().casefold() in name.casefold()


def _headline(standings: Sequence[Standing], told: Sequence[Told]) -> list[Component]:
    """Engines that stand still come before promises: they break them soon."""
    still = sum(each.alarming for each in told)
    stands = f"{still} engine{'s stand' if still != 1 else ' stands'} still"
    first: list[Component] = [html.P([badge(State.PAGE, word=stands)])] if still else []
    return [
        *first,
        summary(standings) if standings else html.P("No promise has been made yet."),
    ]


def _promises(
    standings: Sequence[Standing],
    services: Sequence[_Service],
    reader: Reader,
    view: View,
    viewer: Viewer,
) -> Component:
    if standings:
        # why not under a filter: a promise is about all of its service
        known = [each.now for each in services if each.now is not None and not view.where]
        return promise_table(standings, reader, view, viewer, services=known)
    if view.find:
        return html.P(quiet("No promise has this in its name."))
    return empty(
        "What should hold?",
        [
            html.P("Write down what your users are promised, and start again:"),
            html.Pre(
                "# stagewatch.yaml\nobjectives:\n  - p99 ttft <= 1.5s over 30d where service=chat\n"
            ),
            html.Pre("stagewatch up --config stagewatch.yaml"),
        ],
    )


def _services(reader: Reader, window: Window, view: View) -> list[_Service]:
    """All services anybody has heard of, those with trouble first."""
    now, earlier, ago = (
        {
            value_of(each.labels, "service"): each
            for each in reader.stages(
                Selection(window=then, where=view.where, by=("service",), counted=then is window)
            )
        }
        for then in (window, before(window), last_week(window))
    )
    fresh: Mapping[str, Freshness] = {each.service: each for each in reader.freshness(window)}
    services = [
        _Service(
            name=name,
            freshness=fresh.get(name),
            now=now.get(name),
            before=earlier.get(name),
            a_week_ago=ago.get(name),
        )
        for name in ({*now} if view.where else {*now, *fresh}) - {""}
    ]
    return sorted(services, key=lambda each: (-each.p99_s, each.name))


def _service_table(
    services: Sequence[_Service], window: Window, view: View, viewer: Viewer
) -> Component:
    if not services:
        if view.find:
            return html.P(quiet("No service has this in its name."))
        return _none_such(view, viewer) if view.where else _nothing_yet(view, viewer)
    columns = (
        "Service",
        "Replicas up",
        "Requests",
        "TTFT P50",
        "TTFT P99",
        "Where the time goes",
        "Started − finished",
        "Data",
    )
    shown = services[:MOST_SERVICES]
    unit = rate_unit(per_s(each.now, _over(each, window)) for each in shown)
    rows = [_service_row(each, window, unit, view, viewer) for each in shown]
    return table("Services, slowest first", columns, rows)


def _service_row(
    service: _Service, window: Window, unit: str, view: View, viewer: Viewer
) -> list[Cell]:
    now = service.now
    target = View(service=service.name, span_s=view.span_s, fixed=view.fixed, where=view.where)
    rows = compare(now, service.before) if now is not None else []
    ttft = now.ttft if now is not None else None
    newest_at_s = service.freshness.newest_at_s if service.freshness is not None else None
    seen = "not observed" if newest_at_s is None else f"{age(viewer.now_s - newest_at_s)} old"
    values = bool(ttft is not None and ttft.n)
    no_traffic = quiet("no traffic")
    against = short_text(grown(service.name, now, service.a_week_ago)) if now is not None else ""
    where_time_goes = html.Div(
        [stage_bar(rows), quiet(guilty_text(rows)), quiet(against)], className="stages"
    )
    return [
        Cell(link(html.Strong(name_text(service.name)), viewer.href(target))),
        Cell(_replicas(service.freshness, viewer), number=True),
        Cell(_requests(service, window, unit, viewer) if values else no_traffic, number=True),
        Cell(quantile_text(ttft, P50), number=True),
        Cell(quantile_text(ttft, P99), number=True),
        Cell(where_time_goes if values and rows else quiet(NOTHING), broad=True),
        Cell(unfinished_text(now.flow if now is not None else None), number=True),
        Cell(quiet(seen), number=True),
    ]


def _replicas(freshness: Freshness | None, viewer: Viewer) -> str | list[Component]:
    """How many answer, of those that somebody asks; the others are only known by their requests."""
    if freshness is None or not freshness.replicas:
        return NOTHING
    asked = [each for each in freshness.replicas if each.up is not None]
    unasked = len(freshness.replicas) - len(asked)
    if not asked:
        return [quiet(f"{unasked} known, none is asked")]
    up = sum(bool(each.up) and viewer.now_s - each.last_seen_at_s <= STALE_S for each in asked)
    text = f"{up} of {len(asked)}"
    others = "under other names" if named_twice(freshness.replicas) else "that nobody asks"
    also = [quiet(f"and {unasked} {others}")] if unasked else []
    return [html.Span(text) if up == len(asked) else html.Strong(text), *also]


def _over(service: _Service, window: Window) -> Window:
    return watched(window, service.freshness.since_s if service.freshness is not None else None)


def _requests(
    service: _Service, window: Window, unit: str, viewer: Viewer
) -> str | list[Component | str]:
    over = _over(service, window)
    text, since = rate(per_s(service.now, over), unit=unit), since_text(window, over, viewer)
    return [text, quiet(since)] if since else text


def _none_such(view: View, viewer: Viewer) -> Component:
    lifted = viewer.href(replace(view, where=()))
    return empty(
        "Nothing in this window has these labels",
        [html.P(["Look further back, or at ", link("everything", lifted), "."])],
    )


def _nothing_yet(view: View, viewer: Viewer) -> Component:
    past = window_text(view.span_s) if view.live else "this window"
    host = viewer.host
    return empty(
        f"Nothing was heard in {past}",
        [
            html.P("Let an engine send its spans here; vLLM does it by itself:"),
            html.Pre(
                f"vllm serve MODEL --otlp-traces-endpoint http://{host}:4317 "
                "--collect-detailed-traces all"
            ),
            html.P("Or run the sidecar beside it, which reads its /metrics every second:"),
            html.Pre(
                "stagewatch exporter engine --target http://127.0.0.1:8000 --service chat "
                f"--endpoint http://{host}:4318"
            ),
            html.P("Only looking around? This brings a fleet of its own:"),
            html.Pre("stagewatch demo"),
        ],
    )
