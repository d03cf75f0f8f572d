"""What a ladder says in sentences: the same ones on the terminal, in JSON and on the page."""

from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from statistics import median

from exporters.ladder.figure_text import dollars, duration, number, share
from exporters.ladder.figures import StepFigures
from exporters.ladder.knee import Beyond, Knee, Rung
from exporters.ladder.measurement import Climb, Measurement, money, required
from exporters.ladder.plan import Step
from exporters.ladder.rank import HONEST_P99

__all__ = ["caveats", "findings", "knee_sentence"]

_OFF = 0.02
_BLUR_S, _BLUR_SHARE = 0.002, 0.25
_HAPPENS = {
    Beyond.QUEUES: "the server queues",
    Beyond.WAITS: "they wait for their first token, though not for a fixed number of slots",
    Beyond.SLOWS: "they only slow each other down",
}
_TEN_THOUSAND, _THOUSAND = "10\u202f000", "1\u202f000"


def findings(measurement: Measurement) -> dict[str, tuple[str, ...]]:
    """Per shape: the knee, the objectives, what is required, what it costs."""
    return {climb.shape.name: tuple(_findings(measurement, climb)) for climb in measurement.climbs}


def caveats(measurement: Measurement) -> tuple[str, ...]:
    """What a reader must know before believing the figures, most important first."""
    return tuple(
        dict.fromkeys(
            (
                *_about_the_end(measurement),
                *_about_us(measurement),
                *_about_failures(measurement),
                *_about_ranks(measurement),
                *_about_lengths(measurement),
            )
        )
    )


def knee_sentence(knee: Knee) -> str:
    """What happens above which number of concurrent requests."""
    if knee.beyond is Beyond.UNKNOWN:
        return "Fewer than two steps have figures to believe: that shows no knee."
    if knee.beyond is Beyond.RISES:
        before, last = knee.rungs[-2:]
        return (
            f"Up to {last.concurrency} concurrent requests tokens/s still grows "
            f"({number(before.tokens_hz)} at {before.concurrency}, {number(last.tokens_hz)} at "
            f"{last.concurrency}): the knee lies higher."
        )
    what = _HAPPENS[knee.beyond]
    said = f"Above {_about(knee)} concurrent requests {what}: {_growth(knee)}, and {_stays(knee)}."
    first = knee.rungs[0].concurrency
    if knee.at == first > 1:
        return f"{said} It may begin below {first}: no lower step was climbed."
    return said


def _about(knee: Knee) -> str:
    exact = knee.slots is None or knee.is_exact
    return f"{'' if exact else 'about '}{knee.from_concurrency}"


def _growth(knee: Knee) -> str:
    """The latency that pays for it, from the last rung below to the last of all."""
    slows = knee.beyond is Beyond.SLOWS
    name, growth_s = ("ITL", knee.itl_growth_s) if slows else ("TTFT", knee.ttft_growth_s)
    last, base = knee.rungs[-1], _base(knee)
    first_s, last_s = (base.itl_s, last.itl_s) if slows else (base.ttft_s, last.ttft_s)
    ends = (
        f"P50 {duration(first_s)} at {base.concurrency}, {duration(last_s)} at {last.concurrency}"
    )
    if growth_s is None or growth_s <= 0:
        return f"{name} does not grow ({ends})"
    return f"{name} grows by {duration(growth_s)} per added request ({ends})"


def _base(knee: Knee) -> Rung:
    begins = knee.from_concurrency or 0
    below = [rung for rung in knee.rungs if rung.concurrency <= begins]
    return below[-1] if below else knee.rungs[0]


def _stays(knee: Knee) -> str:
    begins = knee.from_concurrency or 0
    rates = [rung.tokens_hz for rung in knee.rungs if rung.concurrency >= begins]
    best, last = max(rates), rates[-1]
    if min(rates) >= 0.9 * best:
        return f"tokens/s stays at {number(median(rates))}"
    if last < 0.9 * best:
        return f"tokens/s falls from {number(best)} to {number(last)}"
    return f"tokens/s grows only from {number(rates[0])} to {number(last)}"


def _findings(measurement: Measurement, climb: Climb) -> Iterator[str]:
    knee = climb.knee
    if climb.closed:
        yield knee_sentence(knee)
        yield from _second_opinion(knee)
    yield from _objectives(climb)
    for rate_hz in measurement.rates_hz:
        yield _required(climb, rate_hz)
    yield from _costs(measurement, climb)


def _second_opinion(knee: Knee) -> Iterator[str]:
    """Only where two methods differ: then the curve bends slowly."""
    second = knee.second_opinion
    if knee.beyond not in (Beyond.WAITS, Beyond.SLOWS) or second in (None, knee.at):
        return
    yield (
        f"The curve bends slowly: {knee.at} is the first step with 95 % of the best tokens/s, and "
        f"Kneedle, which looks for the sharpest bend, says {second}."
    )


def _objectives(climb: Climb) -> Iterator[str]:
    goal, best, kept = climb.goal, climb.best_goodput, climb.kept_to
    if goal is None or not climb.closed:
        return
    needed = f"{number(float(goal.target) * 100, digits=5)} %"
    if kept is None:
        first = (climb.believed or climb.closed)[0]
        yield (
            f"At no step do {needed} of requests keep {goal.text}: at {_at(first)} it is "
            f"{first.good} of {first.requests}."
        )
    else:
        yield (
            f"At least {needed} of requests keep {goal.text} up to {_at(kept)} at a time: "
            f"{number(kept.figure('goodput_hz').median)} good requests/s."
        )
    arriving = list(takewhile(lambda s: goal.is_met(s.good or 0, s.requests), climb.open))
    if arriving:
        rate_hz = arriving[-1].step.rate_hz
        yield f"Poisson arrivals, which do not wait for answers, keep it up to {number(rate_hz)}/s."
    if best is not None and best is not kept:
        yield (
            f"Goodput is best at {_at(best)}: {number(best.figure('goodput_hz').median)} good "
            f"requests/s, {share(best.good or 0, best.requests)} of all."
        )


def _at(step: StepFigures) -> str:
    return str(step.step.concurrency)


def _required(climb: Climb, rate_hz: float) -> str:
    needed = required(climb, rate_hz)
    if needed is None:
        return f"What {number(rate_hz)} requests/s need cannot be said: no step has figures for it."
    number_of = "one endpoint is" if needed.endpoints == 1 else f"{needed.endpoints} endpoints are"
    return (
        f"{number(rate_hz)} requests/s x {duration(needed.duration_s)} each = "
        f"{number(needed.in_flight)} on their way at a time (Little's law); an endpoint takes "
        f"{number(needed.endpoint_hz)}/s, so {number_of} needed."
    )


def _costs(measurement: Measurement, climb: Climb) -> Iterator[str]:
    working = climb.working
    if working is None or not measurement.plan.price.is_known:
        return
    cost = money(working, measurement.plan.price)
    good = f", {dollars(cost.per_1_000_good)} per {_THOUSAND} good requests" if climb.goal else ""
    yield (
        f"At {_at(working)} concurrent requests: {dollars(cost.per_10_000_output_tokens)} per "
        f"{_TEN_THOUSAND} output tokens, {dollars(cost.per_10_000_tokens)} per {_TEN_THOUSAND} "
        f"tokens in and out{good}."
    )


def _about_the_end(measurement: Measurement) -> Iterator[str]:
    if measurement.ended:
        yield f"The ladder was not climbed to the end: {measurement.ended}."
    yield from (f"{note.rstrip('.')}." for note in measurement.notes)


def _about_us(measurement: Measurement) -> Iterator[str]:
    for climb in measurement.climbs:
        ours = climb.disbelieved_from
        if ours is not None:
            yield _bottleneck(climb, ours)
        alone = [step.step.name for step in climb.steps if not step.is_believed]
        alone = [name for name in alone if ours is None or not _from(climb, ours, name)]
        if alone:
            names = ", ".join(alone)
            yield f"{names}: the client was too slow for a while; no finding rests on that."
    blurred = [step for step in measurement.steps if step.is_believed and _is_blurred(step)]
    if blurred:
        late_s = max(step.late_s for step in blurred)
        yield (
            f"The client's event loop was up to {duration(late_s)} late: ITL P95 and P99 may be "
            f"that much too long in {len(blurred)} {_steps(len(blurred))}."
        )


def _bottleneck(climb: Climb, first: Step) -> str:
    """From where on, and whether it is our own work or somebody else's on this machine."""
    runs = next(each for each in climb.closed if each.step == first).runs
    late_s = max(run.client.late_s for run in runs)
    busy = max(run.client.cpu_ratio for run in runs)
    why = "" if busy >= 0.5 else ", so something else is busy on this machine"
    return (
        f"{climb.shape.name}: from c={first.concurrency} on the client is the bottleneck (its event "
        f"loop was {duration(late_s)} late, it took {share(busy, 1)} of a core{why}): figures from "
        "there on are not believed; only objectives that were kept all the same count."
    )


def _is_blurred(step: StepFigures) -> bool:
    itl_s = step.latency("itl", "p50").median
    return itl_s is not None and step.late_s > max(_BLUR_S, _BLUR_SHARE * itl_s)


def _from(climb: Climb, first: Step, name: str) -> bool:
    """True of a closed step that is as loaded as the first, or more."""
    return any(
        each.step.name == name and (each.step.concurrency or 0) >= (first.concurrency or 0)
        for each in climb.closed
    )


def _about_failures(measurement: Measurement) -> Iterator[str]:
    for step in measurement.steps:
        if step.failures:
            named = ", ".join(f"{reason} ({n})" for reason, n in step.failures.most_common(3))
            yield (
                f"{step.step.name}: {step.failures.total()} of {step.requests} requests failed: "
                f"{named}. They count as slower than all others, and as not good."
            )


def _about_ranks(measurement: Measurement) -> Iterator[str]:
    least = Counter(min(run.requests for run in step.runs) for step in measurement.steps)
    few = {n: steps for n, steps in sorted(least.items()) if n < HONEST_P99}
    if few:
        named = ", ".join(f"n={n} in {steps} {_steps(steps)}" for n, steps in few.items())
        yield (
            f"With fewer than {HONEST_P99} requests in a run the P99 of TTFT, TPOT and E2E is the "
            f"maximum of n: {named}."
        )


def _steps(number_of: int) -> str:
    return "step" if number_of == 1 else "steps"


def _about_lengths(measurement: Measurement) -> Iterator[str]:
    for climb in measurement.climbs:
        yield from _about_prompts(climb)
        yield from _about_answers(measurement, climb)
    if measurement.shared_prefix:
        yield "Prompts of a shape begin alike (--shared-prefix): a prefix cache makes TTFT shorter."


def _about_prompts(climb: Climb) -> Iterator[str]:
    name, asked = climb.shape.name, climb.shape.prompt_tokens
    told = [step.figure("prompt_tokens").median for step in climb.steps]
    known = [value for value in told if value is not None]
    if not known:
        yield (
            f"{name}: the server does not say how many tokens a prompt has; {asked} words were "
            "sent as as many tokens."
        )
    elif abs(median(known) - asked) > _OFF * asked:
        yield f"{name}: asked for prompts of {asked} tokens, sent {number(median(known))}."


def _about_answers(measurement: Measurement, climb: Climb) -> Iterator[str]:
    name, asked = climb.shape.name, climb.shape.output_tokens
    known = [v for step in climb.steps if (v := step.figure("output_tokens").median) is not None]
    if known and abs(median(known) - asked) > _OFF * asked:
        why = "" if measurement.ignores_eos else " (the server was not told to ignore the end)"
        yield f"{name}: asked for answers of {asked} tokens, got {number(median(known))}{why}."
    pieces = [
        run.output_tokens / run.chunks
        for step in climb.steps
        for run in step.runs
        if run.chunks and run.output_tokens
    ]
    if pieces and median(pieces) > 1.05:
        yield (
            f"{name}: a piece of an answer carries {number(median(pieces))} tokens; ITL is the gap "
            "between pieces, TPOT is per token."
        )
