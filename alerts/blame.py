"""Which stage carries the excess of a latency, and where it is worst: now against before.

A comparison, not a diagnosis: it names the stage whose mean grew most and the replica that is worst,
says what nobody measured, and where to look next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.query import Flow, Series, Stages, StageShare, Window
from domain.distribution import EMPTY, add_all
from domain.indicator import GoodputIndicator, Indicator, LatencyIndicator
from domain.labels import Labels, project, value_of
from domain.request import Stage

__all__ = [
    "NOT_ASKED",
    "PER_TOKEN",
    "Blame",
    "Place",
    "blame",
    "per_token",
    "stage_metric",
    "worst_region",
]

PER_TOKEN = {"tpot": "tpot", "itl": "itl", "itl_max": "tpot"}
"""Promises on tokens, and the latency that says how long decoding took for each."""

_OF_METRIC: dict[str, tuple[Stage, ...]] = {
    "ttft": (Stage.NETWORK, Stage.OVERHEAD, Stage.QUEUE, Stage.PREFILL, Stage.KV_TRANSFER),
    "tpot": (Stage.DECODE,),
    "itl": (Stage.DECODE,),
    "itl_max": (Stage.DECODE,),
}
_STANDS_OUT = 1.5
"""A replica is named when its stage takes this many times the median replica's."""

_NEXT = {
    Stage.NETWORK: "compare clients by region, and look at gateway and load balancer",
    Stage.OVERHEAD: "look at the CPU of the API server and the tokeniser",
    Stage.QUEUE: "look at running and waiting requests per replica: shed load, or add capacity",
    Stage.PREFILL: "look for longer prompts and a lower prefix-cache hit rate",
    Stage.KV_TRANSFER: "look at the link between prefill and decode, and at free KV blocks",
    Stage.DECODE: "look at batch size, preemptions and GPU clocks of the decode replicas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The worst of several replicas, or of the regions that users ask from, beside the median one."""

    labels: Labels
    mean_s: float
    median_s: float
    replicas: int

    @property
    def name(self) -> str:
        named = (value_of(self.labels, each) for each in ("replica", "region", "pool", "service"))
        return next(filter(None, named), "one place")

    @property
    def of(self) -> str:
        """What it is one of: the network is as users' regions are, whichever replica answers."""
        far = value_of(self.labels, "region") and not value_of(self.labels, "replica")
        return "region" if far else "replica"

    @property
    def stands_out(self) -> bool:
        return self.replicas > 1 and self.mean_s > _STANDS_OUT * self.median_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The guilty stage, its mean now and before, and its share of all that grew.

    `stage` is None where no stage was measured. `share` is None where none grew, or nothing was
    seen before; then the stage is simply the longest. `missing`: stages that nobody measured.
    `per_token`: seconds are those of one token, so that longer answers are not blamed. `behind`:
    engines that stood still meanwhile, in words; what grew is their consequence.
    """

    stage: Stage | None
    now_s: float | None = None
    before_s: float | None = None
    share: float | None = None
    place: Place | None = None
    missing: tuple[Stage, ...] = ()
    next_step: str = ""
    per_token: bool = False
    behind: tuple[str, ...] = ()


NOT_ASKED = Blame(stage=None)
"""Minutes that are replayed accuse nobody: what was measured besides, nobody has asked."""


def stage_metric(indicator: Indicator) -> str | None:
    """The latency whose stages explain a broken promise; None: no stage of a request does."""
    match indicator:
        case LatencyIndicator():
            return indicator.metric
        case GoodputIndicator():
            return indicator.limits[0].metric if len(indicator.limits) == 1 else "e2e"
        case _:
            return None


def per_token(series: Sequence[Series], window: Window) -> list[Stages]:
    """Decoding per output token, as if it were a request's only stage."""
    return [
        Stages(
            labels=each.labels,
            window=window,
            e2e=EMPTY,
            ttft=EMPTY,
            stages=[
                StageShare(stage=Stage.DECODE, distribution=whole, mean_s=whole.mean_s, share=None)
            ],
            missing=(),
            flow=_NO_FLOW,
        )
        for each in series
        if (whole := add_all(point.distribution for point in each.points)).n
    ]


_NO_FLOW = Flow(started=None, finished=None, failed=None, cancelled=None, rejected=None)


def blame(
    metric: str, now: Stages | None, before: Stages | None, replicas: Sequence[Stages] = ()
) -> Blame:
    """The stage with the largest growth; of these replicas the one where it is longest."""
    wanted = _OF_METRIC.get(metric, tuple(Stage))
    means_s = _means_s(now, wanted)
    missing = tuple(stage for stage in wanted if now is None or stage in now.missing)
    if not means_s:
        return Blame(stage=None, missing=missing)
    before_s = _means_s(before, wanted)
    known = {s: now_s - before_s[s] for s, now_s in means_s.items() if s in before_s}
    grown = known if max(known.values(), default=0.0) > 0 else means_s
    stage = max(grown, key=lambda each: grown[each])
    total_s = sum(max(value, 0.0) for value in grown.values())
    return Blame(
        stage=stage,
        now_s=means_s[stage],
        before_s=before_s.get(stage),
        share=max(grown[stage], 0.0) / total_s if total_s and grown is known else None,
        place=_worst(stage, replicas),
        missing=missing,
        next_step=_NEXT[stage],
        per_token=metric in PER_TOKEN,
    )


def _means_s(stages: Stages | None, wanted: Sequence[Stage]) -> dict[Stage, float]:
    if stages is None:
        return {}
    values = ((share.stage, _mean_s(share)) for share in stages.stages if share.stage in wanted)
    return {stage: value for stage, value in values if value is not None}


def _mean_s(share: StageShare) -> float | None:
    """The mean; where only intervals are known, the surest value of the ninth decile."""
    if share.mean_s is not None or not share.distribution.n:
        return share.mean_s
    decile = share.distribution.quantile(0.9)
    return None if decile is None else decile.low_s


def worst_region(network_s: Mapping[str, float]) -> Place | None:
    """Where users wait longest for the network, by their region; None where nobody says it."""
    told = sorted((wait_s, region) for region, wait_s in network_s.items() if region)
    if not told:
        return None
    worst_s, region = told[-1]
    median_s, _ = told[(len(told) - 1) // 2]
    labels = (("region", region),)
    return Place(labels=labels, mean_s=worst_s, median_s=median_s, replicas=len(told))


def _worst(stage: Stage, replicas: Sequence[Stages]) -> Place | None:
    """The replica where the stage is longest, compared with those that do the same work."""
    means_s = [
        (values[stage], each.labels)
        for each in replicas
        if stage in (values := _means_s(each, (stage,)))
    ]
    if not means_s:
        return None
    worst_s, labels = max(means_s)
    work = _work(labels)
    peers_s = sorted(mean_s for mean_s, own in means_s if _work(own) == work)
    # why the lower median: of two replicas the better one is the one to compare with
    median_s = peers_s[(len(peers_s) - 1) // 2]
    return Place(labels=labels, mean_s=worst_s, median_s=median_s, replicas=len(peers_s))


def _work(labels: Labels) -> Labels:
    """A prefill replica's queue says nothing of a decode replica's."""
    return project(labels, ("service", "pool", "role"))
