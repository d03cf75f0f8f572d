"""Which stage carries what P99 has grown by since the same hours last week, and where.

P99s of stages do not add up to P99 of the whole, so each growth is told as the range in which it
surely lies, and a stage is named surely only where it outgrew every other one beyond doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from collector.query import Reader, Selection, Stages
from dashboard.measure import P99, last_week
from dashboard.parts import Cell, link, name_text, quiet, table
from dashboard.quantity import NOTHING, quantile_text, seconds, seconds_range
from dashboard.stages import stage_word
from dashboard.url import PROMPT, View
from dashboard.viewer import Viewer
from domain.distribution import Distribution, exact
from domain.labels import value_of
from domain.request import Stage
from domain.request_columns import RequestColumns

__all__ = ["Excess", "Growth", "attribution", "grown", "growths", "short_text"]

_BEFORE_THE_FIRST_TOKEN = (
    Stage.NETWORK,
    Stage.OVERHEAD,
    Stage.QUEUE,
    Stage.PREFILL,
    Stage.KV_TRANSFER,
)
_MOST_ROWS = 12
_LEAST_S = 0.001
_BANDS = (0, 256, 1024, 4096, 16_384)
"""Prompt tokens from which each band begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """What something takes longer than a week ago, at least and at most; below zero: shorter."""

    low_s: float
    high_s: float

    @property
    def sure(self) -> bool:
        return self.low_s > _LEAST_S

    def __str__(self) -> str:
        if self.low_s <= 0 <= self.high_s:
            return f"−{seconds(-self.low_s)} … +{seconds(self.high_s)}"
        if self.high_s < 0:
            return f"−{seconds_range(-self.high_s, -self.low_s)}"
        return f"+{seconds_range(self.low_s, self.high_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """P99 of one group now and a week ago. `excess` is None where there is no past to hold it to.

    `carrier`: the stage that grew most; `surely` where none other can have grown as much.
    """

    name: str
    metric: str
    now: Distribution
    before: Distribution | None
    excess: Excess | None = None
    carrier: Stage | None = None
    carried: Excess | None = None
    surely: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The distributions of one group, by what they are of."""

    whole: Mapping[str, Distribution]
    stages: Mapping[Stage, Distribution]


def grown(name: str, now: Stages, before: Stages | None) -> Growth:
    """Of the first token; of the whole answer where only that has surely grown."""
    return _grown(name, _of(now), None if before is None else _of(before))


def growths(
    reader: Reader, selection: Selection, view: View, now: Mapping[str, Stages]
) -> list[Growth]:
    """By what the page is split by, replicas otherwise; what grew most first, what has no past last."""
    if view.by == PROMPT:
        found = _by_prompt(reader, selection)
    else:
        by = view.label or "replica"
        then = last_week(selection.window)
        week = Selection(window=then, where=selection.where, by=(by,), counted=False)
        before = {value_of(each.labels, by): each for each in reader.stages(week)}
        found = [grown(name, each, before.get(name)) for name, each in now.items() if name]
    return sorted(found, key=_order) if view.by != PROMPT else found


def attribution(
    whole: Growth | None, found: Sequence[Growth], view: View, viewer: Viewer
) -> list[Component]:
    """The sentence of the whole, and a row for each group."""
    if whole is None:
        return [html.P(quiet("No request in this window, so nothing has grown."))]
    by = "prompt tokens" if view.by == PROMPT else view.label or "replica"
    parts: list[Component] = [html.P(_sentence(whole))]
    if view.by == PROMPT and not found:
        told = "Single requests tell the length of prompts; none of this window is kept."
        return [*parts, html.P(quiet(told))]
    if not found:
        return parts
    shown = found[:_MOST_ROWS]
    columns = (
        by.capitalize(),
        "Of",
        "P99 now",
        "A week ago",
        "Longer by",
        "Carried by",
        "Which grew by",
    )
    rows = [_row(each, view, viewer) for each in shown]
    parts.append(table(f"P99 against last week by {by}", columns, rows))
    if len(found) > len(shown):
        parts.append(html.P(quiet(f"and {len(found) - len(shown)} that grew less")))
    return parts


def short_text(growth: Growth) -> str:
    """For a cell: "TTFT P99 +1.2 s on last week: queue"; empty where nothing surely grew."""
    if growth.excess is None:
        return "last week: no data"
    if not growth.excess.sure:
        return ""
    return f"{growth.metric.upper()} P99 {growth.excess} on last week{_carried_by(growth)}"


def _carried_by(growth: Growth) -> str:
    if growth.carrier is None:
        return ""
    return f": {'' if growth.surely else 'possibly '}{stage_word(growth.carrier)}"


def _of(stages: Stages) -> _Measured:
    return _Measured(
        whole={"ttft": stages.ttft, "e2e": stages.e2e},
        stages={each.stage: each.distribution for each in stages.stages},
    )


def _grown(name: str, now: _Measured, before: _Measured | None) -> Growth:
    of = {
        metric: _of_metric(name, metric, now, before)
        for metric in ("ttft", "e2e")
        if now.whole[metric].n
    }
    first = of.get("ttft") or of.get("e2e")
    if first is None:
        return Growth(name=name, metric="ttft", now=now.whole["ttft"], before=None)
    whole = of.get("e2e", first)
    only_whole = whole.excess is not None and whole.excess.sure and not _sure(first)
    return whole if only_whole else first


def _of_metric(name: str, metric: str, now: _Measured, before: _Measured | None) -> Growth:
    then = before.whole[metric] if before is not None and before.whole[metric].n else None
    plain = Growth(name=name, metric=metric, now=now.whole[metric], before=then)
    excess = _excess(now.whole[metric], then)
    if excess is None or before is None:
        return plain
    wanted = _BEFORE_THE_FIRST_TOKEN if metric == "ttft" else tuple(Stage)
    by_stage = {
        stage: found
        for stage in wanted
        if (found := _excess(now.stages.get(stage), before.stages.get(stage))) is not None
    }
    carrier = max(by_stage, key=lambda s: by_stage[s].low_s + by_stage[s].high_s, default=None)
    if carrier is None or not excess.sure or by_stage[carrier].high_s <= _LEAST_S:
        return replace(plain, excess=excess)
    others = [each.high_s for stage, each in by_stage.items() if stage is not carrier]
    carried = by_stage[carrier]
    surely = carried.sure and all(carried.low_s >= high_s for high_s in others)
    return replace(plain, excess=excess, carrier=carrier, carried=carried, surely=surely)


def _excess(now: Distribution | None, before: Distribution | None) -> Excess | None:
    """The range of the difference; None where either side is not there."""
    lately = now.quantile(P99) if now is not None else None
    then = before.quantile(P99) if before is not None else None
    if lately is None or then is None:
        return None
    if not np.isfinite([lately.high_s, then.high_s]).all():
        return None  # why: a range without an end says nothing about what grew
    return Excess(low_s=lately.low_s - then.high_s, high_s=lately.high_s - then.low_s)


def _by_prompt(reader: Reader, selection: Selection) -> list[Growth]:
    """Bands of prompt tokens, from single requests: last week's are there only while kept."""
    now = _bands(reader.request_columns(selection.window, where=selection.where))
    week = last_week(selection.window)
    before = _bands(reader.request_columns(week, where=selection.where))
    return [_grown(name, each, before.get(name)) for name, each in now.items()]


def _bands(found: RequestColumns) -> dict[str, _Measured]:
    tokens = found.values["prompt_tokens"]
    ends = [*_BANDS[1:], np.inf]
    bands = {}
    for low, high in zip(_BANDS, ends, strict=True):
        rows = (tokens >= low) & (tokens < high)
        if rows.any():
            name = f"{low}–{int(high) - 1}" if np.isfinite(high) else f"{low} and more"
            bands[name] = _Measured(
                whole={metric: _exact(found, metric, rows) for metric in ("ttft", "e2e")},
                stages={
                    stage: whole for stage in Stage if (whole := _exact(found, str(stage), rows)).n
                },
            )
    return bands


def _exact(found: RequestColumns, metric: str, rows: NDArray[np.bool_]) -> Distribution:
    values = found.values[metric][rows]
    return exact(values[~np.isnan(values)])


def _sure(growth: Growth) -> bool:
    return growth.excess is not None and growth.excess.sure


def _order(growth: Growth) -> tuple[bool, float, str]:
    return growth.excess is None, -(growth.excess.high_s if growth.excess else 0.0), growth.name


def _sentence(whole: Growth) -> str:
    metric = whole.metric.upper()
    now = quantile_text(whole.now, P99)
    if whole.before is None:
        return f"P99 {metric} is {now}. Of the same hours last week nothing is kept to hold it to."
    then = quantile_text(whole.before, P99)
    if whole.excess is None:
        return f"P99 {metric} is {now}, {then} a week ago: the ranges have no end to compare."
    if not whole.excess.sure:
        verdict = "surely shorter" if whole.excess.high_s < 0 else "not surely longer"
        return f"P99 {metric} is {now}, {then} a week ago: {verdict} ({whole.excess})."
    if whole.carrier is None:
        return f"P99 {metric} is {now}, {then} a week ago: {whole.excess}; no measured stage grew."
    how = "carries it" if whole.surely else "possibly carries it"
    word = stage_word(whole.carrier)
    return (
        f"P99 {metric} is {now}, {then} a week ago: {whole.excess}; {word} {how}, its own P99 "
        f"{whole.carried}."
    )


def _row(growth: Growth, view: View, viewer: Viewer) -> list[Cell]:
    by = view.label or "replica"
    named: Component = name_text(growth.name)
    if view.by != PROMPT:
        named = link(named, viewer.href(view.only(by, growth.name)))
    carrier = NOTHING
    if growth.carrier is not None:
        carrier = f"{'' if growth.surely else 'possibly '}{stage_word(growth.carrier)}"
    return [
        Cell(named),
        Cell(growth.metric.upper()),
        Cell(quantile_text(growth.now, P99), number=True),
        Cell(quiet("no data") if growth.before is None else quantile_text(growth.before, P99)),
        Cell(NOTHING if growth.excess is None else str(growth.excess), number=True),
        Cell(carrier),
        Cell(NOTHING if growth.carried is None else str(growth.carried), number=True),
    ]
