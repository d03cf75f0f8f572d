"""A real vLLM's page intervals to pairs: what one interval of one metric costs."""

import math
import sys
from itertools import pairwise
from time import perf_counter

import numpy as np

from domain.buckets import from_buckets, layout
from tests.pages import page_interval
from tests.paths import RECORDED

BAR_US = 50.0
BUSY_BAR_US = 100.0
ROUNDS = 300
FAMILIES = (
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
)
BUSY_EDGES_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)

Call = tuple[tuple[float, ...], np.ndarray, float, float]


def real_intervals(*, per_request: bool) -> list[Call]:
    """Every interval of the overload run in which something happened; parsing is not timed."""
    pages = sorted((RECORDED / "vllm" / "overload").glob("[0-9][0-9]-*.prom"))
    calls = []
    for name in FAMILIES:
        if per_request == ("inter_token" in name):
            continue
        for before, after in pairwise(pages):
            read = page_interval(before, after, name)
            if read is not None and read.counts.any():
                calls.append((read.edges_s, read.counts, read.sum_s, read.noise_s))
    return calls


def busy_interval() -> list[Call]:
    """One interval of 1000 requests, as a fleet behind one endpoint has."""
    values_s = np.random.default_rng(1).lognormal(-3, 1, 1000)
    counts = np.bincount(np.searchsorted(BUSY_EDGES_S, values_s), minlength=len(BUSY_EDGES_S))
    return [(BUSY_EDGES_S, counts, float(values_s.sum()), 1e-9)]


def us_per_call(calls: list[Call], repeat: int) -> float:
    begin = perf_counter()
    for _ in range(repeat):
        for edges_s, counts, sum_s, noise_s in calls:
            from_buckets(layout(edges_s), counts, sum_s, noise_s=noise_s)
    return (perf_counter() - begin) / repeat / len(calls) * 1e6


def main() -> int:
    """All take turns, and the best round counts: the one without neighbours on the processor."""
    rows = (
        ("request stages of a real vLLM", real_intervals(per_request=True), BAR_US, 1),
        ("its tokens", real_intervals(per_request=False), BUSY_BAR_US, 1),
        ("a busy endpoint", busy_interval(), BUSY_BAR_US, 20),
    )
    rounds = [[us_per_call(calls, repeat) for _, calls, _, repeat in rows] for _ in range(ROUNDS)]
    best_us = [min(column) for column in zip(*rounds, strict=True)]
    for (what, calls, bar_us, _), us in zip(rows, best_us, strict=True):
        sizes = [int(counts.sum()) for _, counts, _, _ in calls]
        print(
            f"coarse: {us:5.1f} us per interval and metric, {bar_us / us:.2f} x its bar of"
            f" {bar_us:g} us ({what}: {len(calls)} of {min(sizes)} to {max(sizes)} values)"
        )
    return 0 if all(us <= row[2] for us, row in zip(best_us, rows, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
