"""A review as a document: verdict first, then what it rests on, then what to do about it."""

from __future__ import annotations

from review.document import Document, Section
from review.picture import intervals
from review.report_rows import (
    advised,
    alternatives,
    gates,
    loads,
    promise_rows,
    records,
    triggers,
)
from review.review_value import Review
from review.shelf import Kept
from review.verdict import VerdictKind
from review.wording import NOTHING, cost, count, day, probability, seconds, share

__all__ = ["VALID_S", "report"]

VALID_S = 7 * 86_400
"""A review is of one week's traffic; the next one says anew."""


def report(kept: Kept) -> Document:
    """All that a page tells; the same value makes the same document."""
    review = kept.review
    of_what = f" of {review.service}" if review.service else ""
    sections = (
        _promised(review),
        _gates(review),
        _alternatives(review),
        _money(review),
        _plan(review),
        _formulas(review),
        _loads(review),
        _triggers(review),
        _record(review),
        _decision(kept),
        _limits(review),
    )
    return Document(
        title=f"Weekly review{of_what}, {day(review.since_s)} to {day(review.until_s)}",
        kind=review.verdict.kind.value,
        says=review.verdict.says,
        reasons=review.verdict.reasons,
        facts=_facts(kept),
        sections=tuple(each for each in sections if each is not None),
    )


def _facts(kept: Kept) -> tuple[tuple[str, str], ...]:
    review, chosen = kept.review, advised(kept.review)
    recommends = review.verdict.kind in (VerdictKind.MOVE, VerdictKind.DO_NOTHING)
    sure = chosen.sureness.meets if chosen is not None and recommends else None
    known = (
        ("Now", str(review.split)),
        ("Aim", str(review.verdict.aim) if review.verdict.aim else NOTHING),
        ("Keeps the promise", probability(sure)),
        ("Money", _saving(review)),
        ("Valid until", day(review.at_s + VALID_S) if recommends else NOTHING),
        ("Review", kept.id),
    )
    return tuple((name, value) for name, value in known if value != NOTHING)


def _saving(review: Review) -> str:
    """Of the aim against now, by week and year."""
    chosen = advised(review)
    if review.verdict.aim is None or chosen is None or not review.alternatives:
        return NOTHING
    before, after = review.alternatives[0].money, chosen.money
    if before is None or after is None:
        return NOTHING
    week, year = after.per_week - before.per_week, after.per_year - before.per_year
    if abs(week) < 0.5:
        return "the same cost"
    word = "more" if week > 0 else "less"
    return f"{cost(after, abs(week))} {word} a week, {cost(after, abs(year))} a year"


def _promised(review: Review) -> Section:
    promise, traffic = review.promise, review.traffic
    said = (
        f"{share(promise.target, digits=1)} of requests are promised a first token within"
        f" {seconds(promise.ttft_s)} and {seconds(promise.tpot_s)} per token after it."
    )
    asked = (
        f"{count(traffic.requests)} requests arrived ({traffic.demand_per_s:.3g}/s);"
        f" {count(traffic.failed)} failed, {count(traffic.cancelled)} were given up."
        f" In the busiest hour {count(traffic.peak_hour)} arrived."
    )
    tokens = (
        f"Prompts: {count(traffic.prompt_p50_tokens)} tokens at P50,"
        f" {count(traffic.prompt_p99_tokens)} at P99; answers: {count(traffic.output_p50_tokens)}"
        f" and {count(traffic.output_p99_tokens)}; cached: {share(traffic.hit_ratio, digits=0)}."
    )
    left = tuple(f"Left out: {count(number)} requests, {why}." for why, number in traffic.left_out)
    return Section(
        title="Promise and traffic",
        sentences=(said, asked, tokens),
        grids=(promise_rows(review),),
        small=left,
    )


def _gates(review: Review) -> Section:
    return Section(title="May it be believed?", grids=(gates(review),))


def _alternatives(review: Review) -> Section | None:
    if len(review.alternatives) < 2:
        return None
    said = (
        "Goodput: requests that got what they are promised, with 5 to 95 %. ± is what the replay of"
        " the current split was off."
    )
    return Section(
        title="Alternatives",
        grids=(alternatives(review),),
        picture=intervals(review),
        small=(said,),
    )


def _money(review: Review) -> Section | None:
    if not review.alternatives:
        return None
    current, chosen = review.alternatives[0], advised(review)
    if current.money is None:
        return Section(
            title="Money",
            sentences=("Not evaluated: no price is told for every worker. Set `prices`.",),
        )
    points = []
    for each in (current, chosen) if chosen is not current else (current,):
        if each is None or each.money is None:
            continue
        money = each.money
        points.append(
            f"{each.split}: {cost(money, money.per_week)} a week,"
            f" {cost(money, money.per_10k_tokens)} per 10 000 tokens,"
            f" {cost(money, money.per_1k_good)} per 1 000 good requests;"
            f" idle: {cost(money, money.idle_per_week)} a week"
        )
    for terms, saves in (
        ("reserved", current.money.reserved_saves_per_week),
        ("spot", current.money.spot_saves_per_week),
    ):
        if saves is not None:
            saved = cost(current.money, saves)
            points.append(f"the current workers at the {terms} price: {saved} a week less")
    return Section(title="Money", points=tuple(points))


def _plan(review: Review) -> Section | None:
    plan = review.plan
    if plan is None:
        return None
    between = (
        f"{plan.lowest_workers} workers serve at the worst moment, {plan.most_workers} at most."
    )
    money = review.alternatives[0].money if review.alternatives else None
    paid = () if plan.cost is None else (f"The change itself costs {cost(money, plan.cost)}.",)
    return Section(
        title="Plan, in safe order",
        points=tuple(step.says for step in plan.steps),
        ordered=True,
        sentences=(" ".join((between, *paid)),),
        small=(f"Back out: {plan.rollback}.", *(f"Risk: {risk}." for risk in plan.risks)),
    )


def _formulas(review: Review) -> Section | None:
    """What a rule of thumb would begin with, beside what was replayed."""
    told = review.sizing
    if told is None:
        return None
    prefill = (
        f"prefill: ⌈R + √R⌉ = {told.prefill}, where R = {told.prefill_load:.2f} s of prefill are asked"
        f" a second in the busiest 5 minutes ({told.peak_per_s:.3g} requests/s)"
    )
    decode = (
        f"decode: {told.decode}, for {told.decode_sequences:.0f} sequences at once and at most"
        f" {told.batch_max} a worker within the promise"
    )
    points = [prefill, decode]
    if told.by_slots is not None and told.generation_s is not None:
        points[-1] += f"; ⌈RPS × {told.generation_s:.3g} s / slots⌉ = {told.by_slots}"
    points.append(f"queue: RPS × generation time × 1.2 = {count(told.queue)} requests may wait")
    if told.held_tokens is not None:
        held = f"KV cache of a request: {count(told.held_tokens)} tokens on average"
        if told.kv_token_bytes is not None:
            held += f", {told.held_tokens * told.kv_token_bytes / 2**20:.3g} MiB"
        points.append(held)
    return Section(title="By formula, to compare with", points=tuple(points))


def _loads(review: Review) -> Section | None:
    if not review.workers:
        return None
    return Section(title="Workers as observed", grids=(loads(review),))


def _triggers(review: Review) -> Section | None:
    if not review.triggers:
        return None
    return Section(
        title="Reasons to look, never actions",
        sentences=("Rules of thumb and what speaks against them. None of them decided anything.",),
        grids=(triggers(review),),
    )


def _record(review: Review) -> Section:
    told = review.track_record
    if told is None:
        return Section(
            title="Track record",
            sentences=("No earlier review foretold this week; there is nothing to compare yet.",),
        )
    followed = {None: "there was nothing to do", True: "followed", False: "not followed"}
    return Section(
        title="Track record",
        sentences=(f"The last advice was {followed[told.followed]}. {told.says}.",),
        grids=(records(told),),
    )


def _decision(kept: Kept) -> Section:
    decision = kept.decision
    if decision is None:
        said = f"Nobody has said yet: stagewatch review decide {kept.id} --done --why …"
    else:
        word = "Done" if decision.done else "Not done"
        said = f"{word}, says {decision.author} ({day(decision.at_s)}): {decision.why}"
    return Section(title="Decision", sentences=(said,))


def _limits(review: Review) -> Section:
    interpreted = (
        f"Without the extra [review] only the busiest stretches were replayed:"
        f" {count(review.replayed_requests)} requests."
    )
    notes = (interpreted, *review.notes) if review.interpreted else review.notes
    return Section(
        title="Not evaluated, and notes",
        points=(*(f"not evaluated: {each}" for each in review.not_evaluated), *notes),
        small=("Measured against simulators, not against GPUs: begin with one worker.",),
    )
