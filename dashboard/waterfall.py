"""A request's time as bars one after the other: what was measured in its place, what was not by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from dashboard.parts import Cell, name_text, quiet, said, table
from dashboard.quantity import percent, seconds
from dashboard.stages import how_to_measure, stage_word
from domain.labels import value_of
from domain.leg import SLICES, Leg, LegKind
from domain.request import Request, Stage

__all__ = ["Piece", "first_token_s", "pieces", "waterfall", "who_saw_it"]

_NS = 1e9
_KINDS = {LegKind.SERVER: "engine"}
_MOST_LEGS = 40
_SPAN_ID = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One stage. Where it was not measured `seconds` is None and `why` says so; never a zero."""

    stage: Stage
    seconds: float | None
    begin_s: float = 0.0
    why: str = ""


def pieces(request: Request) -> tuple[list[Piece], float]:
    """The stages in order, and the whole that they are parts of.

    What follows an unmeasured stage is drawn as early as it can have been; decoding ends at the end.
    """
    lasted_s = (request.end_at_ns - request.start_at_ns) / _NS
    told = request.stage_s
    whole_s = max(lasted_s, sum(each for each in told.values() if each is not None))
    found: list[Piece] = []
    begin_s, sure = 0.0, True
    for stage in Stage:
        length_s = told[stage]
        if length_s is None:
            sure = sure and stage not in request.unknown
            found.append(Piece(stage=stage, seconds=None, why=_why(request, stage)))
            continue
        if stage is Stage.DECODE and not sure:
            begin_s = max(whole_s - length_s, begin_s)
        found.append(Piece(stage=stage, seconds=length_s, begin_s=begin_s))
        begin_s += length_s
    return found, whole_s


def first_token_s(request: Request) -> float | None:
    """When whoever asked had the first token."""
    return request.ttft_s if request.client_ttft_s is None else request.client_ttft_s


def waterfall(request: Request) -> Component:
    """A row a stage; a screen reader hears each row's sentence."""
    found, whole_s = pieces(request)
    rows = [_bar(each, whole_s) for each in found if each.seconds is not None]
    first_s = first_token_s(request)
    mark = [] if first_s is None or not whole_s else [_mark(first_s, whole_s)]
    untold = [each for each in found if each.seconds is None]
    return html.Div(
        [
            html.Ol([*rows, *mark], className="waterfall", **said(f"{seconds(whole_s)} in all")),
            _scale(whole_s),
            html.Ul([html.Li(_untold(each)) for each in untold], className="untold")
            if untold
            else None,
        ]
    )


def who_saw_it(request: Request, legs: Sequence[Leg]) -> Component:
    """Each process's own word, by its own clock."""
    ordered = sorted(legs, key=lambda leg: (leg.start_at_ns, leg.span_id))
    shown = [leg for leg in ordered if leg.kind is not LegKind.LINK][:_MOST_LEGS]
    rows = [_leg(leg, request) for leg in shown]
    columns = (
        "Who",
        "Service, replica",
        "Pool, role, region",
        "Began",
        "Lasted",
        "TTFT",
        "Queue",
        "Prefill",
        "Decode",
        "Ended",
        "Span",
    )
    more = len(ordered) - len(shown)
    rest = html.P(quiet(f"and {more} more spans that tell no time")) if more else None
    return html.Div([html.H2("Who saw it"), table("Who saw it", columns, rows), rest])


def _why(request: Request, stage: Stage) -> str:
    """Without halves nothing is handed over: that is no gap in what is known."""
    if stage not in request.unknown:
        return "no part of this request: one engine did it all"
    return request.unknown[stage]


def _bar(piece: Piece, whole_s: float) -> Component:
    length_s = piece.seconds or 0.0
    share = length_s / whole_s if whole_s else 0.0
    left = 100 * piece.begin_s / whole_s if whole_s else 0.0
    words = f"{seconds(length_s)}, {percent(share)}"
    style = {"left": f"{min(left, 100):.3f}%", "width": f"{100 * share:.3f}%"}
    bar = html.Span(className=f"piece stage-{piece.stage}", style=style)
    return html.Li(
        [
            html.Span(
                [html.Span(className=f"key stage-{piece.stage}"), stage_word(piece.stage)],
                className="stage-name",
            ),
            html.Span(words, className="how-long"),
            html.Span(bar, className="track"),
        ]
    )


def _mark(first_s: float, whole_s: float) -> Component:
    left = {"left": f"{min(100 * first_s / whole_s, 100):.3f}%"}
    return html.Li(
        [
            html.Span("first token", className="stage-name"),
            html.Span(f"after {seconds(first_s)}", className="how-long"),
            html.Span(html.Span(className="tick", style=left), className="track"),
        ]
    )


def _scale(whole_s: float) -> Component:
    return html.Div([html.Span("0"), html.Span(seconds(whole_s))], className="scale-ends quiet")


def _untold(piece: Piece) -> list[Component | str]:
    name = stage_word(piece.stage)
    if piece.why.startswith("no part"):
        return [html.Strong(name), quiet(f" is {piece.why}.")]
    remedy = how_to_measure(piece.stage).partition(": ")[2]
    return [html.Strong(name), quiet(f" was not measured: {piece.why}. Next: {remedy}.")]


def _leg(leg: Leg, request: Request) -> list[Cell]:
    names = {name: value_of(leg.labels, name) for name in ("service", "replica", "pool")}
    where = [value_of(leg.labels, name) for name in ("pool", "role", "region")]
    after_s = (leg.start_at_ns - request.start_at_ns) / _NS
    part = leg.kind in SLICES
    return [
        Cell(_KINDS.get(leg.kind, str(leg.kind).replace("_", " "))),
        Cell(
            [
                html.Span(name_text(names["service"] or "–")),
                html.Span(name_text(names["replica"]), className="under quiet"),
            ]
        ),
        Cell([name_text(", ".join(each for each in where if each) or "–")]),
        Cell(f"{'+' if after_s >= 0 else '−'}{seconds(abs(after_s))}", number=True),
        Cell(seconds(leg.length_s), number=True),
        *(
            Cell(seconds(None if part else value), number=True)
            for value in (leg.ttft_s, leg.queue_s, leg.prefill_s, leg.decode_s)
        ),
        Cell([name_text(leg.finish_reason or str(leg.outcome))]),
        Cell([html.Code(leg.span_id.hex()[: 2 * _SPAN_ID])]),
    ]
