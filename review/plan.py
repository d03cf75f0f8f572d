"""How to get from one split to another: steps in an order that never needs more GPUs than there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from domain.errors import ConfigError
from review.money import Price
from review.period import Kind
from review.split import Split

__all__ = ["Act", "Plan", "PlanStep", "plan_of"]


class Act(StrEnum):
    """What a step does to one worker."""

    DRAIN = "drain"
    ADD = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One worker out or in. `workers_after` is what serves then; `lasts_s` None: nobody measured it."""

    act: Act
    kind: Kind
    says: str
    lasts_s: float | None
    workers_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`drain_s`: nobody's answer is cut off. `lowest_workers`: what serves at the worst moment."""

    steps: tuple[PlanStep, ...]
    drain_s: float | None
    lowest_workers: int
    most_workers: int
    cost: float | None
    rollback: str
    risks: tuple[str, ...]


def plan_of(
    current: Split,
    aim: Split,
    *,
    spare_workers: int,
    generation_p99_s: float | None,
    start_s: float | None,
    ttft_promise_s: float,
    drain_configured_s: float | None = None,
    loads: Mapping[str, float] | None = None,
    price: Price | None = None,
) -> Plan:
    """Add before remove while a GPU stands ready; otherwise the idlest role gives first.

    `start_s`: how long a worker takes to start, as measured. `loads`: by role.
    """
    out = _expanded(current, aim, sign=-1)
    out.sort(key=lambda kind: (loads or {}).get(kind.role, 1.0))
    into = _expanded(current, aim, sign=1)
    steps: list[PlanStep] = []
    serving = current.workers
    most = current.workers + spare_workers
    if aim.workers > most:
        raise ConfigError(
            f"{aim} needs {aim.workers} workers, there are {most}",
            where="plan",
            remedy="Raise spare_workers, or aim at a split that fits.",
        )
    while out or into:
        adds = bool(into) and serving < most
        kind = into.pop(0) if adds else out.pop(0)
        serving += 1 if adds else -1
        steps.append(_step(kind, serving, generation_p99_s, start_s, adds=adds))
    counts = [step.workers_after for step in steps] or [serving]
    return Plan(
        steps=tuple(steps),
        drain_s=generation_p99_s,
        lowest_workers=min(counts),
        most_workers=max([*counts, current.workers]),
        cost=_cost(steps, price),
        rollback=f"P99 TTFT above {ttft_promise_s:g} s for 10 minutes: take the steps back, last first",
        risks=_risks(generation_p99_s, start_s, drain_configured_s, steps),
    )


def _expanded(current: Split, aim: Split, *, sign: int) -> list[Kind]:
    have, want = dict(current.counts), dict(aim.counts)
    return [
        kind
        for kind in sorted({*have, *want})
        for _ in range(max(sign * (want.get(kind, 0) - have.get(kind, 0)), 0))
    ]


def _step(
    kind: Kind, serving: int, drain_s: float | None, start_s: float | None, *, adds: bool
) -> PlanStep:
    if adds:
        wait = (
            "until it is warm (5 min)"
            if start_s is None
            else f"{start_s:.0f} s and 5 min of warm-up"
        )
        says = f"add 1 {kind}: wait {wait} before the next step"
        return PlanStep(act=Act.ADD, kind=kind, says=says, lasts_s=start_s, workers_after=serving)
    wait = "its last answer" if drain_s is None else f"up to {drain_s:.0f} s"
    says = f"drain 1 {kind}: no new requests, wait {wait}, then stop it"
    return PlanStep(act=Act.DRAIN, kind=kind, says=says, lasts_s=drain_s, workers_after=serving)


def _cost(steps: list[PlanStep], price: Price | None) -> float | None:
    """Workers that are paid and do not serve yet, or no more."""
    lengths = [step.lasts_s for step in steps]
    if price is None or any(length is None for length in lengths):
        return None
    return price.per_hour * sum(length for length in lengths if length is not None) / 3600


def _risks(
    generation_s: float | None,
    start_s: float | None,
    configured_s: float | None,
    steps: list[PlanStep],
) -> tuple[str, ...]:
    if not steps:
        return ()
    risks = ["a new worker's prefix cache is empty: the hit rate dips until it is filled"]
    if any(step.act is Act.DRAIN for step in steps):
        if generation_s is None:
            risks.append("generation times are not measured: drain until the last answer has ended")
        elif configured_s is not None and configured_s < generation_s:
            risks.append(
                f"the drain is configured at {configured_s:g} s, one answer in a hundred takes"
                f" {generation_s:.0f} s: raise it, or answers are cut off"
            )
        elif configured_s is None:
            risks.append(f"the configured drain is not known: it must be {generation_s:.0f} s")
    if start_s is None:
        risks.append("how long a worker takes to start is not measured")
    return tuple(risks)
