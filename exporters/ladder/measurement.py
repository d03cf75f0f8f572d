"""Everything one ladder found, as one value that all reports are made of."""

from dataclasses import dataclass, field

from exporters.ladder.cost import Price
from exporters.ladder.figures import StepFigures
from exporters.ladder.knee import Knee, find_knee, rungs_of
from exporters.ladder.objective import Goal
from exporters.ladder.plan import Plan, Shape, Step

__all__ = ["Climb", "Measurement", "Money", "Required", "money", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """`ended` is empty for a ladder that was climbed to the end; else why it was not."""

    address: str
    model: str
    began_at_ns: int
    lasted_s: float
    plan: Plan
    goal: Goal | None
    rates_hz: tuple[float, ...]
    steps: tuple[StepFigures, ...]
    tokens_per_word: float | None
    shared_prefix: bool
    ignores_eos: bool
    seed: str
    requests: int
    prompt_tokens: int
    output_tokens: int
    spent: float | None
    ended: str = ""
    notes: tuple[str, ...] = ()

    @property
    def climbs(self) -> tuple["Climb", ...]:
        """One per shape that has any step."""
        shapes = dict.fromkeys(each.step.shape for each in self.steps)
        return tuple(
            Climb(
                shape=shape,
                steps=tuple(each for each in self.steps if each.step.shape == shape),
                goal=self.goal,
            )
            for shape in shapes
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Climb:
    """The steps of one shape, and what they say together."""

    shape: Shape
    steps: tuple[StepFigures, ...]
    goal: Goal | None = None
    _knees: list[Knee] = field(default_factory=list, repr=False)

    @property
    def closed(self) -> tuple[StepFigures, ...]:
        return tuple(step for step in self.steps if not step.step.is_open)

    @property
    def open(self) -> tuple[StepFigures, ...]:
        return tuple(step for step in self.steps if step.step.is_open)

    @property
    def believed(self) -> tuple[StepFigures, ...]:
        """Closed steps that we ourselves did not slow down."""
        return tuple(step for step in self.closed if step.is_believed)

    @property
    def disbelieved_from(self) -> Step | None:
        """The step from which on we were too slow: the figures are ours, not the server's."""
        first: Step | None = None
        for figures in reversed(self.closed):
            if figures.is_believed:
                break
            first = figures.step
        return first

    @property
    def knee(self) -> Knee:
        if not self._knees:
            self._knees.append(find_knee(rungs_of(self.believed)))
        return self._knees[0]

    @property
    def kept_to(self) -> StepFigures | None:
        """The most loaded closed step up to which every one keeps the objectives.

        A client that is late makes figures worse: what was kept is kept, what was not says nothing.
        """
        kept: StepFigures | None = None
        for step in self.closed:
            if self.goal is not None and self.goal.is_met(step.good or 0, step.requests):
                kept = step
            elif step.is_believed:
                break
        return kept

    @property
    def best_goodput(self) -> StepFigures | None:
        """The least loaded step within 5 % of the most good requests a second."""
        rated = [(s.figure("goodput_hz").median, s) for s in self.believed]
        known = [(rate, step) for rate, step in rated if rate]
        most = max((rate for rate, _ in known), default=0.0)
        return next((step for rate, step in known if rate >= 0.95 * most), None)

    @property
    def working(self) -> StepFigures | None:
        """Where one would run it: what keeps the objectives, else the knee or the step below it."""
        if self.goal is not None:
            return self.kept_to or self.best_goodput
        most = self.knee.from_concurrency
        if most is None or not self.believed:
            return self.believed[-1] if self.believed else None
        below = [step for step in self.believed if (step.step.concurrency or 0) <= most]
        return below[-1] if below else self.believed[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """What a rate of requests needs, by Little's law: rate x mean duration."""

    rate_hz: float
    duration_s: float
    in_flight: float
    endpoints: int
    at_concurrency: int
    endpoint_hz: float


def required(climb: Climb, rate_hz: float) -> Required | None:
    """How many endpoints at their working point, and how many requests are then on their way."""
    working = climb.working
    most_hz = working.figure("requests_hz").median if working is not None else None
    if not most_hz:
        return None
    endpoints = max(-int(-rate_hz // most_hz), 1)
    each_hz = rate_hz / endpoints
    rungs = [rung for rung in climb.knee.rungs if rung.requests_hz >= each_hz * (1 - 1e-9)]
    if not rungs:
        return None
    rung = rungs[0]
    return Required(
        rate_hz=rate_hz,
        duration_s=rung.mean_e2e_s,
        in_flight=rate_hz * rung.mean_e2e_s,
        endpoints=endpoints,
        at_concurrency=rung.concurrency,
        endpoint_hz=most_hz,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What one step costs. None where it cannot be said."""

    per_10_000_output_tokens: float | None
    per_10_000_tokens: float | None
    per_1_000_good: float | None


def money(step: StepFigures, price: Price) -> Money:
    """From rates while all load was there; a price per hour buys whatever the endpoint gives."""
    output_hz = step.figure("tokens_hz").median
    prompt_hz = step.figure("prompt_tokens_hz").median
    good_hz = step.figure("goodput_hz").median
    second = price.per_second(prompt_hz, output_hz) if output_hz is not None else None
    total_hz = output_hz + prompt_hz if output_hz is not None and prompt_hz is not None else None
    return Money(
        per_10_000_output_tokens=_per(second, output_hz, 10_000),
        per_10_000_tokens=_per(second, total_hz, 10_000),
        per_1_000_good=_per(second, good_hz, 1_000),
    )


def _per(second: float | None, rate_hz: float | None, number: int) -> float | None:
    return second / rate_hz * number if second is not None and rate_hz else None
