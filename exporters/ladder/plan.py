"""What a ladder will do before it does it: shapes, steps, rounds, requests, tokens and money."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from domain.errors import ConfigError
from exporters.ladder.cost import Price
from exporters.ladder.rank import HONEST_P99

__all__ = ["SHAPES", "Guards", "Plan", "Shape", "Step"]

MAX_CONCURRENCY = 1024
_MAX_RUNS = 20
_MOST_TOKENS = 1_000_000
_CALIBRATION = 3  # requests that find out what the server takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One kind of request: how long the prompt is, and how long the answer may be."""

    name: str
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if not (
            1 <= self.prompt_tokens <= _MOST_TOKENS and 1 <= self.output_tokens <= _MOST_TOKENS
        ):
            raise ConfigError(
                f"{self.prompt_tokens} tokens in and {self.output_tokens} out are no request",
                where=f"prompt {self.name[:40]!r}",
                remedy="Use 1 to 1 000 000 of each.",
            )


SHAPES = {"short": 128, "long": 2048}
"""Prompt lengths by name, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung: a closed loop of `concurrency` workers, or Poisson arrivals at `rate_hz`."""

    shape: Shape
    concurrency: int | None = None
    rate_hz: float | None = None

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_hz is None):
            raise ValueError("a step has either a concurrency or a rate")

    @property
    def is_open(self) -> bool:
        return self.rate_hz is not None

    @property
    def name(self) -> str:
        """What progress, notes and tables call it."""
        load = f"{self.rate_hz:.3g}/s" if self.is_open else f"c={self.concurrency}"
        return f"{self.shape.name} {load}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Where a ladder stops by itself. None: no limit."""

    max_requests: int | None = None
    max_spend: float | None = None
    max_error_share: float = 0.1
    errors_from: int = 10
    run_s: float = 120.0
    max_in_flight: int = 256

    def __post_init__(self) -> None:
        """Ask for what must hold, so that NaN fails too."""
        limits = {
            "--max-requests": self.max_requests is None or self.max_requests > _CALIBRATION,
            "--max-spend": self.max_spend is None or 0 < self.max_spend < math.inf,
            "--max-errors": 0 <= self.max_error_share <= 1,
            "--run-seconds": 0 < self.run_s < math.inf,
            "--max-in-flight": 1 <= self.max_in_flight <= MAX_CONCURRENCY,
        }
        for option, holds in limits.items():
            if not holds:
                raise ConfigError(
                    "no ladder can keep to that",
                    where=option,
                    remedy="Use a number above 0; of requests 4 or more (3 find out what the "
                    "server takes), of errors 0 to 100 %, in flight at most 1024.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Rounds over all steps: round 1 is a whole ladder, and drift shows between the rounds.

    `rates_hz` are open-loop steps; `rate_shares` make them of the best that the closed loop
    reached, and are known only then.
    """

    shapes: tuple[Shape, ...]
    concurrencies: tuple[int, ...]
    rates_hz: tuple[float, ...] = ()
    rate_shares: tuple[float, ...] = ()
    rounds: int = 3
    requests: int = HONEST_P99
    guards: Guards = field(default_factory=Guards)
    price: Price = field(default_factory=Price)

    def __post_init__(self) -> None:
        for problem, where, remedy in self._problems():
            raise ConfigError(problem, where=where, remedy=remedy)

    def _problems(self) -> Iterator[tuple[str, str, str]]:
        if not self.concurrencies and not self.rates_hz:
            yield "there is no step", "ladder", "Give --concurrency 1,4,8 or --rate 1,2."
        if not all(1 <= each <= MAX_CONCURRENCY for each in self.concurrencies):
            yield (
                f"{max(self.concurrencies)} streams at once from one process measure the client",
                "--concurrency",
                f"Use 1 to {MAX_CONCURRENCY}.",
            )
        if not all(0 < rate <= 10_000 for rate in self.rates_hz):
            yield "a rate is above 0 and at most 10 000 requests/s", "--rate", "Write --rate 0.5,2."
        if self.rate_shares and not self.concurrencies:
            yield (
                "a share of the measured best needs a closed loop first",
                "--loop",
                "Give --concurrency too, or --rate.",
            )
        if not 1 <= self.rounds <= _MAX_RUNS:
            yield f"{self.rounds} runs", "--runs", f"Use 1 to {_MAX_RUNS}; 3 gives a median."
        if self.requests < 1:
            yield "a run without requests measures nothing", "--requests", "Use 1 or more."
        if self.guards.max_spend is not None and not self.price.is_per_token:
            yield (
                "money cannot be counted without a price per token",
                "--max-spend",
                "Give --price-input and --price-output, or --max-requests.",
            )

    @property
    def closed(self) -> tuple[Step, ...]:
        return tuple(
            Step(shape=shape, concurrency=each)
            for shape in self.shapes
            for each in sorted(set(self.concurrencies))
        )

    @property
    def open(self) -> tuple[Step, ...]:
        """The open-loop steps whose rate is known from the start."""
        return tuple(
            Step(shape=shape, rate_hz=rate)
            for shape in self.shapes
            for rate in sorted(set(self.rates_hz))
        )

    def measured(self, step: Step) -> int:
        """Requests of one run that are judged: at least two per worker."""
        return max(self.requests, 2 * (step.concurrency or 0))

    def warm_up(self, step: Step) -> int:
        """Requests before them that are not: one per worker, a tenth of an open run."""
        return step.concurrency or max(math.ceil(self.requests / 10), 3)

    def most_requests(self) -> int:
        """About the most that may be sent: measured requests, and the load before and after."""
        closed = sum(self._most(step) for step in self.closed)
        shares = len(self.rate_shares) * len(self.shapes)
        example = Step(shape=self.shapes[0], rate_hz=1.0)
        opened = (len(self.open) + shares) * self._most(example)
        return (closed + opened) * self.rounds + _CALIBRATION

    def _most(self, step: Step) -> int:
        around = 2 * step.concurrency if step.concurrency else self.measured(step)
        return self.warm_up(step) + self.measured(step) + around

    def most_tokens(self) -> tuple[int, int]:
        """(prompt, output) tokens of that many requests."""
        per_shape = -(-self.most_requests() // len(self.shapes))
        prompts = sum(shape.prompt_tokens for shape in self.shapes) * per_shape
        outputs = sum(shape.output_tokens for shape in self.shapes) * per_shape
        return prompts, outputs

    def most_spend(self) -> float | None:
        """What that costs at a price per token; None where the price is per hour or not known."""
        return self.price.of_tokens(*self.most_tokens())

    @property
    def p99_is_maximum(self) -> bool:
        return self.requests < HONEST_P99
