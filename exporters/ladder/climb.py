"""The climb itself: calibrate, then round after round over all steps, until done or stopped."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from exporters.ladder.ask import Asker, EndpointLane, Prompts
from exporters.ladder.budget import Budget
from exporters.ladder.calibrate import Calibration, calibrate
from exporters.ladder.course import Course
from exporters.ladder.figures import Run, RunFigures, StepFigures, run_figures
from exporters.ladder.health import Pulse, watched
from exporters.ladder.load import Load, closed_loop, open_loop
from exporters.ladder.measurement import Measurement
from exporters.ladder.objective import Goal
from exporters.ladder.plan import Plan, Shape, Step
from exporters.ladder.progress import Progress
from exporters.probe.exchange import Exchange
from exporters.probe.settings import ProbeTarget

__all__ = ["Order", "climb"]

Keep = Callable[[list[Exchange]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be measured, of whom, against which objectives."""

    target: ProbeTarget
    plan: Plan
    goal: Goal | None = None
    rates_hz: tuple[float, ...] = ()
    seed: str = "1"
    shared_prefix: bool = False
    ignore_eos: bool = True


async def climb(
    order: Order, progress: Progress, interrupted: asyncio.Event, keep: Keep
) -> Measurement:
    """Measures until everything is done, a guard stops it, or `interrupted` is set.

    `keep` gets the exchanges between the runs, so that sending them disturbs none. Raises
    ProbeError when not even one request is answered.
    """
    began_at_ns, began_s = time.time_ns(), time.perf_counter()
    prompts = Prompts(seed=order.seed, shared_prefix=order.shared_prefix)
    calibration = await calibrate(
        order.target,
        order.plan.shapes,
        prompts,
        timeout_s=order.target.timeout_s,
        ignore_eos=order.ignore_eos,
    )
    await keep(list(calibration.exchanges))
    async with watched() as pulse:
        climber = _Climber(order, calibration, prompts, pulse, progress, interrupted, keep)
        await climber.rounds()
    return climber.found(began_at_ns, time.perf_counter() - began_s)


@dataclass(slots=True, eq=False)
class _Climber:
    """One climb under way."""

    order: Order
    calibration: Calibration
    prompts: Prompts
    pulse: Pulse
    progress: Progress
    interrupted: asyncio.Event
    keep: Keep
    budget: Budget = field(init=False)
    runs: dict[Step, list[RunFigures]] = field(default_factory=dict)
    ended: str = ""
    notes: list[str] = field(default_factory=list)
    _exchanges: list[Exchange] = field(default_factory=list)
    _cut: dict[tuple[Shape, bool], Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.budget = Budget(self.order.plan.guards, self.order.plan.price)
        for done in self.calibration.exchanges:
            self.budget.add(done.prompt_tokens, done.output_tokens)

    async def rounds(self) -> None:
        """Closed steps first; the best of them says the rates of open steps that are shares."""
        plan = self.order.plan
        opened: tuple[Step, ...] | None = None
        for number in range(1, plan.rounds + 1):
            await self._round(number, plan.closed)
            if opened is None:
                opened = (*plan.open, *self._shares())
                self.progress.expect([*plan.closed, *opened])
            await self._round(number, opened)
            if self.ended:
                return

    async def _round(self, number: int, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if self.ended:
                return
            cut = self._cut.get((step.shape, step.is_open))
            if cut is not None and _load(step) >= _load(cut):
                continue
            await self._step(number, step)

    async def _step(self, number: int, step: Step) -> None:
        plan = self.order.plan
        course = Course(
            warm_up=plan.warm_up(step), measured=plan.measured(step), guards=plan.guards
        )
        self.progress.begin(step, number, course, self.budget)
        load = Load(
            course=course,
            shape=step.shape,
            budget=self.budget,
            interrupted=self.interrupted,
            told=self.progress.tell,
        )
        self.pulse.take()
        await self._drive(load, step, number)
        run = Run(
            number=number,
            samples=tuple(course.samples),
            opened_at_s=course.opened_at_s,
            closed_at_s=course.closed_at_s,
            client=self.pulse.take(),
            stopped=course.stopped,
        )
        self.runs.setdefault(step, []).append(run_figures(run, step, self.order.goal))
        self.progress.end()
        self._judge(step, course.stopped)
        exchanges, self._exchanges = self._exchanges, []
        await self.keep(exchanges)

    async def _drive(self, load: Load, step: Step, number: int) -> None:
        lanes: list[EndpointLane] = []
        asker = Asker(
            self.calibration.target,
            self.prompts,
            words=self.calibration.words,
            timeout_s=self.order.target.timeout_s,
            kept=lambda done, _: self._exchanges.append(done),
        )

        def lane() -> EndpointLane:
            lanes.append(asker.lane(step.shape, begins_short=not step.is_open))
            return lanes[-1]

        try:
            if step.rate_hz is not None:
                await open_loop(
                    load,
                    lane,
                    rate_hz=step.rate_hz,
                    seed=f"{self.order.seed} {step.name} {number}",
                    max_in_flight=self.order.plan.guards.max_in_flight,
                )
            else:
                await closed_loop(load, [lane() for _ in range(step.concurrency or 0)])
        finally:
            await asyncio.gather(*(each.close() for each in lanes))

    def _judge(self, step: Step, stopped: str) -> None:
        """A stopped step ends its shape's climb; a used-up budget and a person end it all."""
        if not stopped:
            return
        self.notes.append(f"{step.name} was stopped: {stopped}")
        if self.interrupted.is_set() or self.budget.refusal(step.shape):
            self.ended = stopped
        else:
            self._cut[step.shape, step.is_open] = step

    def _shares(self) -> tuple[Step, ...]:
        """Open steps at shares of the best rate that the closed loop reached in round 1."""
        steps = []
        for shape in self.order.plan.shapes if not self.ended else ():
            rates = [
                run.requests_hz or 0.0
                for step, runs in self.runs.items()
                if step.shape == shape and not step.is_open
                for run in runs
            ]
            best_hz = max(rates, default=0.0)
            if not best_hz and self.order.plan.rate_shares:
                self.notes.append(f"{shape.name}: nothing was answered, so there is no open loop")
                continue
            steps += [
                Step(shape=shape, rate_hz=share * best_hz) for share in self.order.plan.rate_shares
            ]
        return tuple(steps)

    def found(self, began_at_ns: int, lasted_s: float) -> Measurement:
        order, scale = self.order, self.calibration.scale
        return Measurement(
            address=order.target.address,
            model=order.target.model,
            began_at_ns=began_at_ns,
            lasted_s=lasted_s,
            plan=order.plan,
            goal=order.goal,
            rates_hz=order.rates_hz,
            steps=tuple(
                StepFigures(step=step, runs=tuple(runs)) for step, runs in self.runs.items()
            ),
            tokens_per_word=scale.per_word if scale is not None else None,
            shared_prefix=order.shared_prefix,
            ignores_eos=self.calibration.ignores_eos,
            seed=order.seed,
            requests=self.budget.requests,
            prompt_tokens=self.budget.prompt_tokens,
            output_tokens=self.budget.output_tokens,
            spent=self.budget.spent if order.plan.price.is_per_token else None,
            ended=self.ended,
            notes=tuple(self.notes),
        )


def _load(step: Step) -> float:
    return step.rate_hz if step.rate_hz is not None else float(step.concurrency or 0)
