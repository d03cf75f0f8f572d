"""The tables of a report, their cells already in words."""

from __future__ import annotations

from review.document import Grid
from review.review_value import Review
from review.track_record import Realised
from review.triggers import Trigger
from review.verdict import Alternative, Flag
from review.wording import NOTHING, cost, count, goodput, percentile, probability, seconds, share

__all__ = [
    "SHORT",
    "advised",
    "alternatives",
    "gates",
    "in_order",
    "loads",
    "promise_rows",
    "records",
    "triggers",
]

SHORT = {
    Flag.CURRENT: "now",
    Flag.CANARY: "canary first",
    Flag.LOW_CONFIDENCE: "low confidence",
    Flag.OVERLOADED: "overloaded",
    Flag.UNBOUNDED: "KV capacity not told",
    Flag.FULL: "KV cache nearly full",
}
_MOST_WORKERS = 12
_FIRED = {True: "fired", None: "not evaluated", False: "quiet"}


def advised(review: Review) -> Alternative | None:
    """The split that is advised: the aim, or the current one."""
    aim = review.verdict.aim or review.split
    return next((each for each in review.alternatives if each.split == aim), None)


def in_order(review: Review) -> list[Alternative]:
    """The current split, what is advised, what keeps the promise from the cheapest on, the rest."""
    chosen = advised(review)

    def place(each: Alternative) -> tuple[int, float, float]:
        if each is review.alternatives[0] or each is chosen:
            return int(each is not review.alternatives[0]), 0.0, 0.0
        if each.sureness.meets < review.rails.sure:
            return 3, 0.0, -each.sureness.goodput
        worth = each.money.per_week if each.money else float(each.split.workers)
        return 2, worth, -each.sureness.goodput

    return sorted(review.alternatives, key=place)


def alternatives(review: Review) -> Grid:
    """Every split that was replayed."""
    found = in_order(review)
    priced = any(each.money is not None for each in found)
    stress, target = f"×{review.rails.stress:g}", review.verdict.aim
    columns = [
        "Split",
        *(["Cost a week"] if priced else ["Workers"]),
        "Goodput",
        "P99 TTFT",
        "P99 TPOT",
        f"At {stress}",
        "One less",
        "Keeps it",
        "Better",
        "Notes",
    ]
    rows = [_alternative(each, priced=priced, current=review.split) for each in found]
    strong = next((place for place, each in enumerate(found) if each.split == target), None)
    return Grid(
        caption="What each split would have given",
        columns=tuple(columns),
        rows=tuple(rows),
        numbers=frozenset(range(1, 9)),
        strong=strong,
    )


def _alternative(each: Alternative, *, priced: bool, current: object) -> tuple[str, ...]:
    money, sure = each.money, each.sureness
    own = each.split == current
    return (
        str(each.split),
        cost(money, money.per_week if money else None) if priced else count(each.split.workers),
        goodput(sure.goodput, sure.goodput_interval),
        percentile(each.ttft_p99_s, each.ttft_p99_off),
        percentile(each.tpot_p99_s, each.tpot_p99_off),
        share(each.stressed.goodput if each.stressed else None),
        share(each.one_less_goodput),
        probability(sure.meets),
        NOTHING if own else probability(sure.better),
        ", ".join(SHORT[flag] for flag in each.flags) or NOTHING,
    )


def promise_rows(review: Review) -> Grid:
    """Observed, and the current split replayed."""
    rows = []
    for name, score in (("observed", review.observed), ("replayed", review.replayed)):
        if score is None:
            continue
        rows.append(
            (
                name,
                share(score.goodput),
                *(seconds(each) for each in (score.ttft_p50_s, score.ttft_p95_s, score.ttft_p99_s)),
                *(seconds(each) for each in (score.tpot_p50_s, score.tpot_p95_s, score.tpot_p99_s)),
            )
        )
    return Grid(
        caption="The period as it was, and as the current split replays it",
        columns=(
            "",
            "Goodput",
            "TTFT P50",
            "P95",
            "P99",
            "TPOT P50",
            "TPOT P95",
            "TPOT P99",
        ),
        rows=tuple(rows),
        numbers=frozenset(range(1, 8)),
    )


def gates(review: Review) -> Grid:
    """What must hold before anything is recommended."""
    rows = tuple(
        (each.name, "holds" if each.passed else "holds it back", each.why) for each in review.gates
    )
    return Grid(caption="Gates", columns=("Gate", "", "Why"), rows=rows)


def loads(review: Review) -> Grid:
    """The slowest workers: how much each served, and how fast it is."""
    shown = sorted(review.workers, key=lambda each: -each.speed)[:_MOST_WORKERS]
    more = len(review.workers) - len(shown)
    rows = tuple(
        (
            each.name,
            each.role,
            count(each.requests),
            seconds(each.wait_p99_s),
            f"×{each.speed:.2f}",
        )
        for each in shown
    )
    return Grid(
        caption="The slowest first" + (f"; {more} more are as fast or faster" if more else ""),
        columns=("Worker", "Role", "Requests", "P99 wait", "Step time"),
        rows=rows,
        numbers=frozenset({2, 3, 4}),
    )


def triggers(review: Review) -> Grid:
    """Each rule, its evidence, and what speaks against it."""
    rows = tuple(
        (
            each.rule,
            _FIRED[each.fired],
            each.says,
            _evidence(each),
            "; ".join(each.against) or NOTHING,
        )
        for each in review.triggers
        if each.fired is not False
    )
    return Grid(
        caption="Rules of thumb that fired or could not be judged",
        columns=("Rule", "", "Says", "Evidence", "Against"),
        rows=rows,
    )


def _evidence(trigger: Trigger) -> str:
    """Signals by name, with three digits."""
    told = (f"{name} {value:.3g}" for name, value in trigger.evidence[:6])
    return ", ".join(told) or NOTHING


def records(told: Realised) -> Grid:
    """Foretold beside what came."""
    advice = told.advice
    inside = {None: "not comparable", True: "inside", False: "outside"}[told.inside]
    off = NOTHING if told.ttft_p99_off is None else f"{told.ttft_p99_off:+.0%}".replace("%", " %")
    row = (
        str(advice.aim or advice.split),
        goodput(advice.goodput, advice.interval),
        share(told.goodput),
        inside,
        seconds(advice.ttft_p99_s),
        off,
    )
    return Grid(
        caption="Predicted against realised",
        columns=("Split", "Goodput foretold", "Came", "Interval", "P99 TTFT foretold", "Off"),
        rows=(row,),
        numbers=frozenset({1, 2, 4, 5}),
    )
