"""The service page: how fast, where the time goes, and which replica is worst."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from alerts.changes import changes
from alerts.ledger import Ledger, Standing
from collector.query import Reader, Selection, Stages, Window
from dashboard import breakdown
from dashboard.attribution import attribution, grown, growths
from dashboard.change_list import change_table, instants
from dashboard.choices import choices, filter_field, filter_values
from dashboard.conditions import Told, condition_list, conditions_told, short_name
from dashboard.content import Content
from dashboard.curves import CHARTS, chart_regions, stack_regions
from dashboard.flows import finished, gone_wrong, per_s, since_text, unfinished_text, watched
from dashboard.frame import common_regions, frame, region, tab_title
from dashboard.graphs import graph
from dashboard.measure import P50, P99, before, last_week, whole_minutes
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    Children,
    badge,
    empty,
    link,
    name_text,
    named_by,
    quiet,
    said,
    sentence,
    stage_bar,
    table,
)
from dashboard.promises import promise_table, worst_first
from dashboard.quantity import (
    NOTHING,
    age,
    count,
    percent,
    quantile_text,
    rate,
    seconds,
    window_text,
)
from dashboard.silences import silences
from dashboard.stages import StageRow, compare, guilty, how_to_measure, stage_word
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import value_of

__all__ = ["content", "page"]

SILENT_S = 180
HEIGHT_PX = dict.fromkeys(CHARTS, 232) | {"stack": 288}


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    window = view.window(viewer.now_s) if view.live else whole_minutes(view.window(viewer.now_s))
    where = view.only("service", view.service).where
    selection = Selection(window=window, where=where)
    now, earlier = _now_and_before(reader, selection)
    rows = compare(now, earlier) if now is not None else []
    standings = _standings(ledger, view.service)
    told = conditions_told(reader, ledger, view, viewer, where)
    title = _title(standings, told, view)
    fresh = next(iter(reader.freshness(window, service=view.service)), None)
    newest_at_s = fresh.newest_at_s if fresh is not None else None
    over = watched(window, fresh.since_s if fresh is not None else None)
    groups = breakdown.worst_first(reader, selection, view)
    changed = changes(reader, ledger, window, where=where, now_s=viewer.now_s)
    marked = instants(changed, viewer, width_s=window.until_s - window.since_s)
    leading = next((each for each in told if each.alarming), None)
    state, headline = (
        _headline(view, viewer, standings, now, newest_at_s)
        if leading is None
        else (leading.state, _stands_still(leading))
    )
    regions = common_regions(view, viewer, newest_at_s=newest_at_s, title=title) | {
        "badge": badge(state) if state is not None else None,
        "state": headline,
        "conditions": condition_list(told, view, viewer, leaving_out=leading),
        "facts": _facts(now, rows, over, since_text(window, over, viewer)),
        "promises": promise_table(
            standings, reader, view, viewer, said="" if leading else _message(standings)
        )
        if standings
        else None,
        "choices": choices(view, viewer),
        "filter-values": filter_values(reader, window),
        "changes": change_table(changed, viewer, past=_past(view)),
        "attribution": _attribution(reader, selection, now, groups, view=view, viewer=viewer),
        "stages": _stage_table(now, rows, window),
        "breakdown": breakdown.breakdown(groups, window, view, viewer),
    }
    names = [group.name for group in groups]
    marks = silences(reader, selection, viewer)
    charts, captions = chart_regions(
        reader,
        selection,
        standings,
        names=names,
        marks=marks,
        instants=marked,
        view=view,
        viewer=viewer,
    )
    stack, stack_captions = stack_regions(
        reader, selection, rows, marks=marks, instants=marked, view=view, viewer=viewer
    )
    return Content(
        title=title,
        regions=regions | captions | stack_captions,
        charts=charts | stack,
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions and charts in place."""
    drawn = [graph(name, shown, height_px=HEIGHT_PX[name]) for name in CHARTS]
    latencies = html.Div(drawn, className="charts")
    return frame(
        view,
        shown,
        [
            html.Div(
                [html.H1(name_text(view.service)), region("badge", shown, className="badge")],
                className="name",
            ),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            region("conditions", shown, **SPOKEN_WHEN_CHANGED),
            region("facts", shown),
            html.Section(region("promises", shown), **said("Promises")),
            html.Section(
                [
                    html.Div(
                        [
                            html.H2("Latency", id="latency"),
                            region("choices", shown),
                            filter_field(shown),
                        ],
                        className="heading",
                    ),
                    latencies,
                ],
                **named_by("latency"),
            ),
            html.Section(
                [
                    html.H2("Where the time goes", id="time"),
                    html.Div(
                        [
                            graph("stack", shown, height_px=HEIGHT_PX["stack"]),
                            region("stages", shown),
                        ],
                        className="charts wide",
                    ),
                ],
                **named_by("time"),
            ),
            html.Section(
                [html.H2("Against last week", id="last-week"), region("attribution", shown)],
                **named_by("last-week"),
            ),
            html.Section(
                [html.H2("What changed", id="changed"), region("changes", shown)],
                **named_by("changed"),
            ),
            html.Section(region("breakdown", shown), **said("Breakdown")),
        ],
    )


def _attribution(
    reader: Reader,
    selection: Selection,
    now: Stages | None,
    groups: Sequence[breakdown.Group],
    *,
    view: View,
    viewer: Viewer,
) -> list[Component]:
    """Which stage carries what P99 has grown by, of the whole and of each group."""
    if now is None or not now.ttft.n + now.e2e.n:
        return attribution(None, [], view, viewer)
    then = last_week(selection.window)
    week = Selection(window=then, where=selection.where, counted=False)
    whole = grown(view.service, now, next(iter(reader.stages(week)), None))
    parts = {each.name: each.now for each in groups if each.now is not None}
    return attribution(whole, growths(reader, selection, view, parts), view, viewer)


def _now_and_before(reader: Reader, selection: Selection) -> tuple[Stages | None, Stages | None]:
    """The window and the one of equal length before it."""
    window = selection.window
    found = (
        reader.stages(Selection(window=each, where=selection.where, counted=each is window))
        for each in (window, before(window))
    )
    lately, earlier = (next(iter(each), None) for each in found)
    return lately, earlier


def _standings(ledger: Ledger, service: str) -> list[Standing]:
    """Of the promises that concern it, with their minutes."""
    ids = [each.id for each in ledger.standings(spark_s=0) if _concerns(each, service)]
    found = (ledger.standing(each) for each in ids)
    return [each for each in found if each is not None]


def _concerns(standing: Standing, service: str) -> bool:
    return value_of(standing.objective.indicator.where, "service") in ("", service)


def _title(standings: Sequence[Standing], told: Sequence[Told], view: View) -> str:
    states = {short_name(each): each.state for each in told if each.alarming} | {
        each.objective.name: each.state for each in worst_first(standings)
    }
    worst = min(states.values(), key=list(State).index, default=State.HEALTHY)
    return tab_title(states) if worst is not State.HEALTHY else f"● {view.service[:60]}"


def _at_stake(standings: Sequence[Standing]) -> Standing | None:
    """The worst promise, if it pages or has a ticket."""
    worst = next(iter(worst_first(standings)), None)
    return worst if worst is not None and worst.state in (State.PAGE, State.TICKET) else None


def _message(standings: Sequence[Standing]) -> str:
    worst = _at_stake(standings)
    return worst.message if worst is not None else ""


def _headline(
    view: View,
    viewer: Viewer,
    standings: Sequence[Standing],
    now: Stages | None,
    newest_at_s: int | None,
) -> tuple[State | None, Children]:
    """The ledger's own sentence where a promise is at stake; else what is known."""
    worst = _at_stake(standings)
    if worst is not None:
        return worst.state, html.P(sentence(worst.message))
    if newest_at_s is None:
        return State.NOT_OBSERVED, [html.P(_unheard(view)), _wider(view, viewer)]
    silent_s = viewer.now_s - newest_at_s
    if view.live and silent_s > SILENT_S:
        return State.NOT_OBSERVED, html.P(
            f"Nothing has been heard of this service for {age(silent_s)}."
        )
    if now is None or not now.ttft.n + now.e2e.n:
        return State.NO_TRAFFIC, html.P(f"Nobody asked for anything in {_past(view)}.")
    total = len(standings)
    kept = sum(each.state is State.HEALTHY for each in standings)
    told = f"Every promise is kept: {total} of {total}. " if total and kept == total else ""
    found = (
        f"{told}Half of the first tokens come within {quantile_text(now.ttft, P50)}, "
        f"99 of 100 within {quantile_text(now.ttft, P99)}."
    )
    return (worst_first(standings)[0].state if standings else None), html.P(found)


def _stands_still(leading: Told) -> Component:
    """An engine that stands still comes before any promise: it breaks them soon."""
    then = f" Next: {leading.next_step}." if leading.next_step else ""
    return html.P(sentence(leading.message + then))


def _past(view: View) -> str:
    return window_text(view.span_s) if view.live else "this window"


def _unheard(view: View) -> str:
    return f"Nothing was heard of this service in {_past(view)}."


def _wider(view: View, viewer: Viewer) -> Component:
    return empty(
        "Look further back, or elsewhere",
        [
            html.P(
                [
                    link("the last 24 h", viewer.href(view.last(86_400))),
                    ", ",
                    link("the last 7 d", viewer.href(view.last(604_800))),
                    ", or ",
                    link("all services", viewer.href(View(span_s=view.span_s))),
                    ".",
                ]
            ),
            html.P("Is its sidecar running, and does its name match? A dry reading tells:"),
            html.Pre(
                "stagewatch exporter engine --target http://ENGINE:8000 --service NAME --once"
            ),
        ],
    )


def _facts(
    now: Stages | None, rows: Sequence[StageRow], over: Window, since: str
) -> Component | None:
    """The handful of figures that one looks for first."""
    if now is None:
        return None
    failed, lost = gone_wrong(now.flow)
    facts = [
        ("Requests", rate(per_s(now, over)), f"{count(finished(now))} finished {since}".strip()),
        ("TTFT P50", quantile_text(now.ttft, P50), "server side" if now.ttft.n else ""),
        ("TTFT P99", quantile_text(now.ttft, P99), _doubt(now)),
        ("E2E P99", quantile_text(now.e2e, P99), ""),
        ("Started − finished", unfinished_text(now.flow), "answers begun and not ended"),
        ("Failed", failed, lost),
        _grew_most(rows),
    ]
    items = [
        html.Div([html.Dt(name), html.Dd([html.Span(value, className="value"), quiet(note)])])
        for name, value, note in facts
    ]
    return html.Dl(items, className="facts")


def _grew_most(rows: Sequence[StageRow]) -> tuple[str, str, str]:
    """The guilty stage; the longest one where nothing was measured before."""
    worst = guilty(rows)
    if worst is not None:
        return "Grew most", stage_word(worst.stage), f"+{seconds(worst.excess_s)} against before"
    if any(row.before_s is not None for row in rows):
        return "Grew most", "no stage", "against the time before"
    longest = max(rows, key=lambda row: row.now_s or 0.0, default=None)
    word = stage_word(longest.stage) if longest is not None and longest.now_s else "not measured"
    return "Longest stage", word, "nothing before to compare with"


def _doubt(now: Stages) -> str:
    return "" if now.ttft.exact else "range: the buckets say no more"


def _stage_table(now: Stages | None, rows: Sequence[StageRow], window: Window) -> list[Component]:
    if now is None or not rows:
        return [html.P(quiet("No stage was measured in this window."))]
    columns = ("Stage", "Mean now", "Before", "Change", "P99 now", "Share")
    worst = guilty(rows)
    any_before = any(row.before_s is not None for row in rows)
    body = [
        [
            Cell([html.Span(className=f"key stage-{row.stage}"), stage_word(row.stage)]),
            Cell(seconds(row.now_s), number=True),
            Cell(seconds(row.before_s) if any_before else quiet("no data"), number=True),
            Cell(_change(row), number=True),
            Cell(quantile_text(row.distribution, P99), number=True),
            Cell(percent(row.share), number=True),
        ]
        for row in rows
    ]
    marks = ["guilty" if row is worst else "" for row in rows]
    length_s = window.until_s - window.since_s
    bar = stage_bar(rows)
    parts: list[Component] = [
        *([] if bar is None else [bar]),
        table(f"Stages, now and in {window_text(length_s)} before", columns, body, marks=marks),
    ]
    if now.missing:
        told = "; ".join(how_to_measure(stage, now.reasons.get(stage)) for stage in now.missing)
        parts.append(html.P(f"Not measured: {told}.", className="quiet"))
    return parts


def _change(row: StageRow) -> str:
    excess_s = row.excess_s
    if excess_s is None:
        return NOTHING
    return f"{'+' if excess_s >= 0 else '−'}{seconds(abs(excess_s))}"
