"""The worst quantile error over many shapes of latency, merges, rollups and downscales."""

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from domain.distribution import Distribution, add_all, exact
from domain.exponential import from_exponential, to_sparse
from domain.grid import RELATIVE_ERROR

QUANTILES = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
SIZES = (1, 2, 10, 101, 1000, 30_000)
SEEDS = range(5)

Values = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int], Values]
Way = Callable[[Values], Distribution]

SHAPES: dict[str, Shape] = {
    "lognormal": lambda rng, n: rng.lognormal(-1, 1, n),
    "narrow": lambda rng, n: rng.normal(0.2, 0.001, n),
    "heavy tail": lambda rng, n: 0.01 * (1 + rng.pareto(1.1, n)),
    "two humps": lambda rng, n: np.where(
        rng.random(n) < 0.97, rng.lognormal(-3, 0.3, n), rng.lognormal(3, 0.2, n)
    ),
    "exponential": lambda rng, n: rng.exponential(0.05, n) + 1e-8,
    "any magnitude": lambda rng, n: 10.0 ** rng.uniform(-8, 5, n),
    "on the edges": lambda rng, n: 2.0 ** (rng.integers(-1000, 1000, n) / 64),
}


def rolled_up(values_s: Values) -> Distribution:
    """Ten seconds, minutes, hours: sums of sums."""
    tiles = [exact(part) for part in np.array_split(values_s, 24)]
    minutes = [add_all(tiles[at : at + 6]) for at in range(0, 24, 6)]
    return minutes[3] + (minutes[1] + (minutes[0] + minutes[2]))


def over_the_wire(values_s: Values) -> Distribution:
    sent = exact(values_s)
    wire = to_sparse(sent.low)
    return from_exponential(
        scale=6,
        zero_count=wire.zero_count,
        offset=wire.offset,
        counts=wire.counts,
        sum_s=sent.sum_s,
    )


def downscaled(values_s: Values) -> Distribution:
    """From OTel's scale 10, sixteen times as fine as ours."""
    index = np.ceil(np.log2(values_s) * 2.0**10).astype(np.int64) - 1
    offset = int(index.min())
    counts = np.bincount(index - offset).tolist()
    return from_exponential(scale=10, zero_count=0, offset=offset, counts=counts, sum_s=None)


WAYS: dict[str, Way] = {
    "as one": exact,
    "rolled up": rolled_up,
    "over OTLP": over_the_wire,
    "downscaled": downscaled,
}


def samples() -> Iterator[tuple[str, Values]]:
    for name, shape in SHAPES.items():
        for seed in SEEDS:
            for n in SIZES:
                yield name, np.sort(shape(np.random.default_rng(seed), n))


def error(found: Distribution, ordered_s: Values, q: float) -> float:
    told = found.quantile(q)
    truth_s = ordered_s[math.ceil(Fraction(str(q)) * len(ordered_s)) - 1]
    return math.inf if told is None or told.value_s is None else abs(told.value_s / truth_s - 1)


def main() -> int:
    worst = dict.fromkeys(WAYS, 0.0)
    compared = 0
    for _, ordered_s in samples():
        for way, summarise in WAYS.items():
            found = summarise(ordered_s)
            errors = [error(found, ordered_s, q) for q in QUANTILES]
            worst[way] = max(worst[way], *errors)
            compared += len(errors)
    for way, value in worst.items():
        print(f"accuracy: worst error {value:.4%} of the value, {way} (bar {RELATIVE_ERROR:.3%})")
    print(f"accuracy: {compared:,} quantiles of {len(SHAPES)} shapes compared")
    return 0 if max(worst.values()) <= RELATIVE_ERROR else 1


if __name__ == "__main__":
    sys.exit(main())
