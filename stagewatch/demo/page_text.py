"""How a classic Prometheus page is written: heads, numbers and bucket counts."""

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["Histogram", "cumulated", "head", "number"]


class Histogram:
    """Classic buckets: counts per bucket, and the sum in the order of the observations."""

    __slots__ = ("count", "counts", "edges", "sum")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self.counts = [0] * (len(edges) + 1)
        self.count = 0
        self.sum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.edges, value)] += count
        self.count += count
        self.sum += value * count


def head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def cumulated(histogram: Histogram) -> list[float]:
    """The values of a histogram's lines: buckets from the lowest up, count, sum."""
    values: list[float] = []
    total = 0
    for count in histogram.counts:
        total += count
        values.append(total)
    return [*values, histogram.count, histogram.sum]


def number(value: float) -> str:
    """A value as `prometheus_client` writes it: `12.0`, `1.5e-05`, `1.79e+09`."""
    text = repr(float(value))
    point = text.find(".")
    if value <= 0 or point <= 6:
        return text
    digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
    return f"{digits}e+{point - 1:02d}"
