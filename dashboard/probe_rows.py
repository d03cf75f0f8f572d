"""The table of probed endpoints: a line each, by region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from dashboard.parts import Cell, badge, meter, name_text, quiet, said, table
from dashboard.probe_targets import HOPS, Target
from dashboard.quantity import NOTHING, age, count, percent, quantile_text, seconds_range
from dashboard.theme import State
from dashboard.viewer import Viewer

__all__ = ["target_table"]

_P50, _P95 = Fraction(1, 2), Fraction(19, 20)
_MOST_ROWS = 60
_MOST_REASONS = 4
_HOP_WORDS = {"dns": "DNS", "connect": "TCP", "tls": "TLS"}
_COLUMNS = (
    "Target",
    "State",
    "TTFT P50",
    "TTFT P95",
    "First byte",
    "Network at least",
    "Arrives",
    "Failures",
    "Spent this month",
)


def target_table(found: Sequence[Target], viewer: Viewer) -> Component:
    """Trouble first."""
    rows = [_row(each, viewer) for each in found[:_MOST_ROWS]]
    more = len(found) - len(rows)
    rest = html.P(quiet(f"and {count(more)} more that are well")) if more > 0 else None
    return html.Div([html.H2("Targets"), table("Targets, trouble first", _COLUMNS, rows), rest])


def _row(target: Target, viewer: Viewer) -> list[Cell]:
    state, word = target.standing
    ttft = target.latency.get("ttft")
    first_byte = target.latency.get("first_byte")
    heard = NOTHING if target.heard_at_s is None else age(viewer.now_s - target.heard_at_s)
    return [
        Cell(_name(target)),
        Cell([badge(state, word=word), html.Span(quiet(f"{heard} ago"), className="under")]),
        Cell(quantile_text(ttft, _P50), number=True),
        Cell(quantile_text(ttft, _P95), number=True),
        Cell(quantile_text(first_byte, _P50), number=True),
        Cell(_floor(target), number=True),
        Cell(_arrives(target)),
        Cell(_failures(target)),
        Cell(_spent(target)),
    ]


def _name(target: Target) -> list[Component | str]:
    told = [value for name in ("region", "replica") if (value := target.label(name))]
    under = [html.Span(quiet(name_text(value)), className="under") for value in told]
    return [name_text(target.label("service")), *under]


def _floor(target: Target) -> list[Component | str]:
    """The fastest handshakes seen, together and each."""
    told = {hop: least_s for hop in HOPS if (least_s := target.least_s(hop)) is not None}
    if not told:
        return [NOTHING]
    low_s, high_s = (sum(ends) for ends in zip(*told.values(), strict=True))
    words = [f"{_HOP_WORDS[hop]} {seconds_range(*each)}" for hop, each in told.items()]
    under = [html.Span(quiet(each), className="under") for each in words]
    return [seconds_range(low_s, high_s), _hops(told, ", ".join(words)), *under]


def _hops(told: Mapping[str, tuple[float, float]], words: str) -> Component:
    whole_s = sum(high_s for _, high_s in told.values()) or 1.0
    pieces = [
        html.Span(className=f"piece hop-{hop}", style={"flexGrow": round(high_s / whole_s, 5)})
        for hop, (_, high_s) in told.items()
    ]
    return html.Span(pieces, className="stage-bar", role="img", **said(words))


def _arrives(target: Target) -> list[Component | str]:
    if target.buffers is None:
        return [quiet("too short to tell")] if target.asked else [NOTHING]
    if not target.buffers:
        return ["token by token"]
    return ["in lumps", html.Span(quiet(name_text(target.buffers_at)), className="under")]


def _failures(target: Target) -> list[Component | str]:
    """How those that were sent ended badly, and how many were not sent."""
    bad = target.failures
    total = sum(bad.values())
    parts: list[Component | str] = [f"{count(total)} of {count(target.asked)}"]
    for why, number in list(bad.items())[:_MOST_REASONS]:
        why_not = name_text(why.replace("_", " ") or "no reason told")
        words: list[Component | str] = [why_not, f": {count(number)}"]
        parts.append(html.Span(quiet(words), className="under"))
    for why, number in target.held_back.items():
        parts.append(html.Span(quiet(f"not sent, {why}: {count(number)}"), className="under"))
    return parts


def _spent(target: Target) -> list[Component | str]:
    """Against what may be spent, in money or in tokens."""
    usd, may_usd = target.levels.get("probe_spending"), target.levels.get("probe_allowance")
    tokens = target.levels.get("probe_month_tokens")
    may_tokens = target.levels.get("probe_token_allowance")
    parts: list[Component | str] = []
    if usd is not None:
        parts.append(f"{usd:.2f} $")
    if may_usd:
        parts += _of_allowance((usd or 0.0) / may_usd, f"of {may_usd:.2f} $")
    if tokens is not None:
        words = f"{count(tokens)} tokens"
        parts.append(words if not parts else html.Span(quiet(words), className="under"))
    if may_tokens:
        parts += _of_allowance((tokens or 0.0) / may_tokens, f"of {count(may_tokens)} tokens")
    if not parts:
        return [quiet("not told")]
    if not may_usd and not may_tokens:
        parts.append(html.Span(quiet("no budget set"), className="under"))
    return parts


def _of_allowance(share: float, words: str) -> list[Component | str]:
    state = State.TICKET if share >= 0.9 else State.HEALTHY
    told = html.Span(quiet(f"{percent(share)} {words}"), className="under")
    return [meter(share, label=f"{percent(share)} {words}", state=state), told]
