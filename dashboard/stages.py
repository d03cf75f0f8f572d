"""Where requests spend their time: now against the same length of time before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.query import Stages, StageShare, Unmeasured
from dashboard.quantity import percent, seconds
from domain.distribution import Distribution
from domain.request import Stage

__all__ = ["StageRow", "compare", "guilty", "guilty_text", "how_to_measure", "stage_word"]

_SHARE = 0.1
_LEAST_S = 0.005
_REMEDIES = {
    Stage.NETWORK: "send client spans",
    Stage.OVERHEAD: "send server spans with queue, prefill and decode times",
    Stage.QUEUE: "send server spans, or run the engine sidecar",
    Stage.PREFILL: "send server spans, or run the engine sidecar",
    Stage.KV_TRANSFER: "send spans of both halves; only disaggregated engines have it",
    Stage.DECODE: "send server spans, or run the engine sidecar",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage, its mean now and before; None where it is not known."""

    stage: Stage
    distribution: Distribution
    now_s: float | None
    before_s: float | None
    share: float | None

    @property
    def excess_s(self) -> float | None:
        """What a request waits longer here than before."""
        if self.now_s is None or self.before_s is None:
            return None
        return self.now_s - self.before_s


def stage_word(stage: Stage) -> str:
    """As people say it."""
    return "KV transfer" if stage is Stage.KV_TRANSFER else str(stage)


def how_to_measure(stage: Stage, why: Unmeasured | None = None) -> str:
    """As in "network (no client sends spans): send client spans"."""
    because = "" if why in (None, Unmeasured.NOT_TOLD) else f" ({why})"
    return f"{stage_word(stage)}{because}: {_REMEDIES[stage]}"


def compare(now: Stages, before: Stages | None) -> list[StageRow]:
    """The measured stages in the order they happen."""
    earlier: dict[Stage, StageShare] = (
        {each.stage: each for each in before.stages} if before is not None else {}
    )
    return [
        StageRow(
            stage=each.stage,
            distribution=each.distribution,
            now_s=each.mean_s,
            before_s=earlier[each.stage].mean_s if each.stage in earlier else None,
            share=each.share,
        )
        for each in sorted(now.stages, key=lambda share: list(Stage).index(share.stage))
    ]


def guilty(rows: Sequence[StageRow]) -> StageRow | None:
    """The stage that grew most, if it grew by a tenth of the whole; None when none did."""
    whole_s = sum(row.now_s or 0.0 for row in rows)
    grown = [row for row in rows if (row.excess_s or 0.0) >= max(_SHARE * whole_s, _LEAST_S)]
    return max(grown, key=lambda row: row.excess_s or 0.0, default=None)


def guilty_text(rows: Sequence[StageRow]) -> str:
    """As in "queue +1.21 s", or where most of the time goes: "mostly decode, 82 %"."""
    worst = guilty(rows)
    if worst is not None:
        return f"{stage_word(worst.stage)} +{seconds(worst.excess_s)}"
    whole_s = sum(row.now_s or 0.0 for row in rows)
    largest = max(rows, key=lambda row: row.now_s or 0.0, default=None)
    if largest is None or not largest.now_s:
        return "not measured"
    return f"mostly {stage_word(largest.stage)}, {percent(largest.now_s / whole_s)}"
