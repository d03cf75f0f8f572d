"""Where more concurrency stops helping, and what it does instead: `docs/decisions/0013`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from exporters.ladder.figures import StepFigures

__all__ = ["Beyond", "Knee", "Rung", "find_knee", "kneedle", "rungs_of"]

ENOUGH = 0.95
"""Of the best throughput: the first rung that reaches it is the knee."""

_QUEUES_BELOW = 0.85
_SAME_SLOTS = 0.15
_NEARLY = 1.05
_WORTH = 0.2
_WHOLE = 0.15


class Beyond(StrEnum):
    """What a server does with more requests than it can use."""

    QUEUES = "queues"  # they wait for a slot: TTFT grows, the others do not notice
    WAITS = "waits"  # they wait for their first token, but not for one of a fixed number of slots
    SLOWS = "slows"  # all share what there is: the gaps between tokens grow
    RISES = "rises"  # nothing yet: throughput still grows
    UNKNOWN = "unknown"  # too few rungs to say


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One closed step reduced to what a knee is found by."""

    concurrency: int
    tokens_hz: float
    requests_hz: float
    ttft_s: float
    itl_s: float | None
    mean_ttft_s: float
    mean_e2e_s: float

    def served_at_once(self, ttft_s: float) -> float:
        """Requests that the server works on, by Little's law: all, less those that wait.

        `ttft_s`: what a first token takes when nothing waits. Of the time of a request, the share
        that it waits is the share of requests that wait.
        """
        waited_s = max(self.mean_ttft_s - ttft_s, 0.0)
        return self.concurrency * (1 - waited_s / self.mean_e2e_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """Where and what. `slots`: how many requests the server works on at once, where it queues.

    `slots` takes the first token of the fullest step before the queue for what it takes without
    one, `slots_at_least` that of the emptiest step.
    """

    rungs: tuple[Rung, ...]
    beyond: Beyond
    at: int | None = None
    second_opinion: int | None = None
    slots: float | None = None
    slots_at_least: float | None = None
    ttft_growth_s: float | None = None
    itl_growth_s: float | None = None

    @property
    def is_exact(self) -> bool:
        """True where both ways to tell the slots say the same whole number."""
        both = (self.slots, self.slots_at_least)
        near = [each for each in both if each is not None and abs(each - round(each)) <= _WHOLE]
        return len(near) == len(both) and len({round(each) for each in near}) == 1

    @property
    def from_concurrency(self) -> int | None:
        """The number of requests above which it begins."""
        return round(self.slots) if self.slots is not None else self.at


def rungs_of(steps: Sequence[StepFigures]) -> tuple[Rung, ...]:
    """The closed steps that have what a knee needs, least load first."""
    found = [rung for step in steps if (rung := _rung(step)) is not None]
    return tuple(sorted(found, key=lambda rung: rung.concurrency))


def _rung(step: StepFigures) -> Rung | None:
    ttft_s = step.latency("ttft", "p50").median
    tokens_hz, requests_hz = step.figure("tokens_hz").median, step.figure("requests_hz").median
    mean_ttft_s, mean_e2e_s = step.figure("mean_ttft_s").median, step.figure("mean_e2e_s").median
    if step.step.concurrency is None or ttft_s is None or mean_ttft_s is None:
        return None
    if not tokens_hz or not requests_hz or mean_e2e_s is None:
        return None
    return Rung(
        concurrency=step.step.concurrency,
        tokens_hz=tokens_hz,
        requests_hz=requests_hz,
        ttft_s=ttft_s,
        itl_s=step.latency("itl", "p50").median,
        mean_ttft_s=mean_ttft_s,
        mean_e2e_s=mean_e2e_s,
    )


def find_knee(rungs: Sequence[Rung]) -> Knee:
    """The first rung with 95 % of the best tokens/s, and what the rungs above it show."""
    rungs = tuple(rungs)
    if len(rungs) < 2:
        return Knee(rungs=rungs, beyond=Beyond.UNKNOWN)
    at = _at(rungs)
    slots, queues = _slots(rungs, _full_ttft_s(rungs))
    at_least, _ = _slots(rungs, rungs[0].mean_ttft_s)
    # why: a queue in front of fixed slots shows even where the last rung is the best
    if queues:
        beyond = Beyond.QUEUES if slots is not None else Beyond.WAITS
    else:
        beyond = Beyond.RISES if at is rungs[-1] else Beyond.SLOWS
    if beyond is Beyond.WAITS and at is rungs[-1]:
        beyond = Beyond.RISES
    begins = slots if slots is not None else float(at.concurrency)
    return Knee(
        rungs=rungs,
        beyond=beyond,
        at=at.concurrency,
        second_opinion=kneedle([(rung.concurrency, rung.tokens_hz) for rung in rungs]),
        slots=slots,
        slots_at_least=at_least if slots is not None else None,
        ttft_growth_s=_growth(begins, [(r.concurrency, r.ttft_s) for r in rungs]),
        itl_growth_s=_growth(begins, [(r.concurrency, r.itl_s) for r in rungs]),
    )


def _at(rungs: Sequence[Rung]) -> Rung:
    """The first with enough of the best; where that is the last, the first that is hardly passed."""
    best_hz = max(rung.tokens_hz for rung in rungs)
    enough = next(rung for rung in rungs if rung.tokens_hz >= ENOUGH * best_hz)
    if enough is not rungs[-1]:
        return enough
    steps = list(pairwise(rungs))
    worth = [index for index, (one, other) in enumerate(steps) if _gain(one, other) >= _WORTH]
    return rungs[worth[-1] + 1] if worth else rungs[0]


def _gain(one: Rung, other: Rung) -> float:
    """How much of the added concurrency became throughput: 1 all of it, 0 nothing."""
    return (other.tokens_hz / one.tokens_hz - 1) / (other.concurrency / one.concurrency - 1)


def _slots(rungs: Sequence[Rung], idle_s: float) -> tuple[float | None, bool]:
    """(slots, does it queue): where the server works on the same number whatever is asked of it.

    The last steps that wait tell it, as many of them as agree; one alone tells it where the step
    before it did not wait and was nearly as many.
    """
    waiting = _waiting(rungs, idle_s)
    before = rungs[: len(rungs) - len(waiting)]
    served = [rung.served_at_once(idle_s) for rung in waiting]
    least = before[-1].concurrency * _QUEUES_BELOW if before else 0.0
    for start in range(max(len(served) - 1, 0)):
        middle = median(served[start:])
        if middle >= least and _agree(served[start:], middle):
            return middle, True
    alone = len(served) == 1 and bool(before) and served[0] >= least
    return (served[0] if alone else None), bool(waiting)


def _agree(served: Sequence[float], middle: float) -> bool:
    return all(abs(each - middle) <= _SAME_SLOTS * middle for each in served)


def _full_ttft_s(rungs: Sequence[Rung]) -> float:
    """What a first token takes on a full server: longer than on an idle one, without any queue."""
    idle_s = rungs[0].mean_ttft_s
    queueing = _waiting(rungs, idle_s)
    before = rungs[: rungs.index(queueing[0])] if queueing else rungs
    full = [rung for rung in before if rung.served_at_once(idle_s) >= ENOUGH * rung.concurrency]
    return full[-1].mean_ttft_s if full else idle_s


def _waiting(rungs: Sequence[Rung], idle_s: float) -> list[Rung]:
    """The rungs above which some requests are always waiting, from the first one that shows it."""
    shows = [r.served_at_once(idle_s) < _QUEUES_BELOW * r.concurrency for r in rungs]
    first = next((index for index in range(len(rungs)) if all(shows[index:])), len(rungs))
    return list(rungs[first:])


def _growth(begins: float, points: Sequence[tuple[int, float | None]]) -> float | None:
    """Seconds per added request from where it begins to the last rung."""
    known = [(x, y) for x, y in points if y is not None]
    below = [y for x, y in known if x <= _NEARLY * begins]
    if not below or not known or known[-1][0] <= begins:
        return None
    last, value_s = known[-1]
    return (value_s - below[-1]) / (last - begins)


def kneedle(points: Sequence[tuple[int, float]]) -> int | None:
    """The point furthest above the chord from the first to the highest (Satopää et al., 2011).

    None for fewer than three points, or where no point lies above it.
    """
    if len(points) < 3:
        return None
    (x0, _), (x1, _) = points[0], points[-1]
    lowest, highest = min(y for _, y in points), max(y for _, y in points)
    if x1 <= x0 or highest <= lowest:
        return None
    above = [((y - lowest) / (highest - lowest) - (x - x0) / (x1 - x0), -x) for x, y in points]
    height, at = max(above)
    return -at if height > 0 else None
