"""The endpoints page: what AWS says of managed endpoints, up to the minute that has settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import EndpointSeries, Reader
from dashboard.content import Content
from dashboard.endpoint_rows import (
    Standing,
    endpoint_table,
    is_throttled,
    questions_table,
    settled_only,
    standings,
)
from dashboard.frame import common_regions, frame, region
from dashboard.parts import SPOKEN_WHEN_CHANGED, badge, clock, empty, name_text, quiet, said
from dashboard.quantity import count, percent, seconds, window_text
from dashboard.theme import State, css_class
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.endpoint_wall import Wall
from domain.managed_endpoint import managed

__all__ = ["content", "page"]

_MOST_FINDINGS = 8
_PROMQL = "PromQL"
_TALLIED = {
    "no traffic": "without traffic",
    "time limit": "at a time limit",
    "traffic": "with traffic",
}


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    del ledger  # promises have a page of their own
    series = [settled_only(each) for each in reader.endpoints(view.window(viewer.now_s))]
    questions = [each for each in series if each.key.namespace == _PROMQL]
    told = standings(managed(series), viewer, live=view.live)
    settled = [each.settled_until_s for each in told if each.settled_until_s is not None]
    newest_at_s = max(settled, default=None)
    regions = common_regions(view, viewer, newest_at_s=newest_at_s, title="Endpoints")
    return Content(
        title="Endpoints",
        regions=regions
        | {
            "state": _headline(told),
            "until": _until(newest_at_s, view, viewer),
            "findings": _findings(told),
            "endpoints": endpoint_table(told, viewer) if told else _nothing_yet(questions),
            "questions": _questions(questions, viewer),
        },
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    return frame(
        view,
        shown,
        [
            html.H1("Endpoints", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            region("until", shown),
            region("findings", shown, **SPOKEN_WHEN_CHANGED),
            html.Section(region("endpoints", shown), **said("Endpoints")),
            html.Section(region("questions", shown), **said("Answers of CloudWatch's PromQL")),
        ],
    )


def _headline(told: Sequence[Standing]) -> Component | None:
    """How many stand how, the worst first."""
    if not told:
        return None
    tally = Counter((each.state, each.word) for each in told)
    order = sorted(tally.items(), key=lambda each: list(State).index(each[0][0]))
    badges = [
        badge(state, word=f"{number} {_TALLIED.get(word, word)}") for (state, word), number in order
    ]
    return html.P(badges, className="tally")


def _until(newest_at_s: int | None, view: View, viewer: Viewer) -> Component | None:
    """Up to when the page speaks: a count that still grows is no fall of traffic."""
    if newest_at_s is None:
        return None
    end_s = min(newest_at_s, view.window(viewer.now_s).until_s)
    past = window_text(view.span_s).capitalize() if view.live else "This window"
    return html.P(quiet([f"{past}, as far as it has settled: up to ", clock(viewer, end_s), "."]))


def _findings(told: Sequence[Standing]) -> Component | None:
    """What somebody should do something about, with its numbers and the way out."""
    found = [finding for each in told for finding in _of(each)]
    if not found:
        return None
    more = len(found) - _MOST_FINDINGS
    rest = [html.Li(quiet(f"and {count(more)} more, in the table below"))] if more > 0 else []
    return html.Ul(
        [*found[:_MOST_FINDINGS], *rest], className="conditions", **said("What stands out")
    )


def _of(each: Standing) -> list[Component]:
    endpoint = each.endpoint
    found = []
    if each.state is State.NOT_OBSERVED:
        words = (
            "nothing has settled for a while. Next: look at the exporter's log and its /metrics."
        )
        found.append(_finding(State.NOT_OBSERVED, "not observed", endpoint.service, words))
    if (wall := endpoint.wall) is not None:
        found.append(_finding(State.TICKET, "time limit", endpoint.service, _wall_words(wall)))
    if is_throttled(endpoint):
        throttled = endpoint.total("throttles") or 0.0
        requests = endpoint.total("invocations") or 0.0
        share = percent(throttled / (throttled + requests))
        words = (
            f"{count(throttled)} requests were turned away, {share} of all. "
            "Next: raise the model's quota, or spread the load over regions."
        )
        found.append(_finding(State.TICKET, "throttled", endpoint.service, words))
    return found


def _wall_words(wall: Wall) -> str:
    middle = (
        ""
        if wall.middle_s is None
        else f" while half of them took {seconds(wall.middle_s)} at most"
    )
    limit = (
        "Somebody set a timeout there. Next: look for it before the model."
        if wall.limit is None
        else f"That is {wall.limit.of}. Next: {wall.limit.remedy[0].lower()}{wall.limit.remedy[1:]}"
    )
    return (
        f"in {wall.minutes} of {wall.of_minutes} minutes the slowest calls ended at "
        f"{seconds(wall.at_s)}{middle}; {count(wall.errors)} failed. {limit}"
    )


def _finding(state: State, word: str, service: str, words: str) -> Component:
    return html.Li(
        [html.Div(badge(state, word=word)), html.P([name_text(service), f": {words}"])],
        className=css_class(state),
    )


def _questions(questions: Sequence[EndpointSeries], viewer: Viewer) -> Component | None:
    if not questions:
        return None
    return html.Div([html.H2("Asked of CloudWatch's PromQL"), questions_table(questions, viewer)])


def _nothing_yet(questions: Sequence[EndpointSeries]) -> Component | None:
    if questions:
        return None
    return empty(
        "No endpoint is watched",
        [
            html.P("SageMaker, Bedrock and the path before them are read from CloudWatch:"),
            html.Pre("stagewatch exporter cloudwatch --config stagewatch.yaml --plan"),
        ],
    )
