"""Invented traffic: arrivals and token lengths drawn from parameters fitted to real traces.

Inter-arrival times are a quantile table whose ranks remember each other (a Gaussian copula of
first-order memories), so that both the gaps and the slow swings of the rate look real. Token
lengths are quantile tables, the output's one per band of prompt lengths.
"""

import json
import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domain.errors import InputError

__all__ = ["PARAMETERS", "Arrival", "Memory", "Quantiles", "Traffic", "TrafficModel", "load_models"]

PARAMETERS = Path(__file__).with_name("traffic.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request: seconds since the one before it, and its tokens."""

    gap_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution as knots (share, value), straight in the logarithm between two knots."""

    shares: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.shares, self.shares[1:], strict=False))
        if not rising or self.shares[0] != 0 or self.shares[-1] != 1:
            raise ValueError("shares must rise from 0 to 1")
        if list(self.values) != sorted(self.values) or not self.values[0] > 0:
            raise ValueError("values must be above 0 and must not fall")

    def at(self, share: float) -> float:
        """The value below which this share lies."""
        last = len(self.shares) - 1
        right = min(max(bisect_right(self.shares, share), 1), last)
        low, high = self.values[right - 1], self.values[right]
        width = self.shares[right] - self.shares[right - 1]
        part = (share - self.shares[right - 1]) / width
        return low * math.exp(math.log(high / low) * part)


@dataclass(frozen=True, slots=True)
class Memory:
    """How much of a gap's rank is remembered, and over how many arrivals."""

    share: float
    arrivals: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficModel:
    """The fitted parameters of one trace."""

    name: str
    gap_s: Quantiles
    memories: tuple[Memory, ...]
    batch: Quantiles | None
    prompt_tokens: Quantiles
    output_tokens: tuple[Quantiles, ...]

    @staticmethod
    def of(name: str, fields: Mapping[str, Any]) -> "TrafficModel":
        return TrafficModel(
            name=name,
            gap_s=_quantiles(fields["gap_s"]),
            memories=tuple(Memory(*memory) for memory in fields["memories"]),
            batch=_quantiles(fields["batch"]) if fields["batch"] else None,
            prompt_tokens=_quantiles(fields["prompt_tokens"]),
            output_tokens=tuple(_quantiles(table) for table in fields["output_tokens"]),
        )


def load_models(path: Path = PARAMETERS) -> dict[str, TrafficModel]:
    """The models of a parameter file, by the name of the trace they were fitted to."""
    try:
        traces = json.loads(path.read_text())["traces"]
        return {name: TrafficModel.of(name, fields) for name, fields in traces.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"holds no traffic parameters: {error}",
            where=str(path),
            remedy="Fit it again: python -m stagewatch.demo.fit --traces DIR.",
        ) from error


class Traffic:
    """An endless stream of arrivals of one model: the same seed, the same stream."""

    def __init__(self, model: TrafficModel, seed: int) -> None:
        self._model = model
        self._random = random.Random(f"{model.name}/{seed}")
        self._state = [self._random.gauss(0.0, 1.0) for _ in model.memories]
        self._decay = [math.exp(-1.0 / memory.arrivals) for memory in model.memories]
        self._rest = math.sqrt(max(1.0 - sum(memory.share for memory in model.memories), 0.0))
        self._left_in_batch = 0

    def __iter__(self) -> Iterator[Arrival]:
        return self

    def __next__(self) -> Arrival:
        gap_s = self._gap_s()
        model, draw = self._model, self._random.random
        rank = draw()
        bands = model.output_tokens
        band = bands[min(int(rank * len(bands)), len(bands) - 1)]
        return Arrival(
            gap_s=gap_s,
            prompt_tokens=max(round(model.prompt_tokens.at(rank)), 1),
            output_tokens=max(round(band.at(draw())), 1),
        )

    def _gap_s(self) -> float:
        """Zero inside a batch, otherwise the table's value at a rank that has a memory."""
        if self._left_in_batch > 0:
            self._left_in_batch -= 1
            return 0.0
        if self._model.batch is not None:
            size = round(self._model.batch.at(self._random.random()))
            self._left_in_batch = max(size, 1) - 1
        score = self._rest * self._random.gauss(0.0, 1.0)
        for index, memory in enumerate(self._model.memories):
            kept = self._decay[index]
            fresh = math.sqrt(1.0 - kept * kept) * self._random.gauss(0.0, 1.0)
            self._state[index] = kept * self._state[index] + fresh
            score += math.sqrt(memory.share) * self._state[index]
        return self._model.gap_s.at(0.5 * math.erfc(-score / math.sqrt(2.0)))


def _quantiles(knots: Mapping[str, list[float]]) -> Quantiles:
    return Quantiles(tuple(knots["shares"]), tuple(knots["values"]))
