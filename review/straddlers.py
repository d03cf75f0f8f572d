"""Prefill steps of a worker that is never idle, rebuilt from when its prompts began and ended.

Under load a step is filled to its budget and the last prompt straddles into the next one, so that
prompts that begin together do not end together. Every beginning and end is the edge of a step; of a
prompt that ends later than its step, the step holds as much as its budget leaves.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from review.period import Period

__all__ = ["rebuilt"]

Floats = NDArray[np.float64]

_EDGE_S: Final = 5e-5
_STEPS_MAX: Final = 60_000


def rebuilt(period: Period, budget_tokens: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Worker, seconds, tokens and tokens x context of each step that can be told."""
    new = np.maximum(period.prompt_tokens - np.maximum(period.cached_tokens, 0), 1)
    rows: list[tuple[float, float, float, float]] = []
    for worker in np.unique(period.prefiller[period.prefiller >= 0]):
        own = np.flatnonzero(period.prefiller == worker)
        start_s = (period.arrival_s + period.start_s)[own]
        end_s = (period.arrival_s + period.prefilled_s)[own]
        order = np.lexsort((end_s, start_s))
        prompts = zip(
            start_s[order].tolist(),
            end_s[order].tolist(),
            new[own][order].tolist(),
            (period.prompt_tokens - new)[own][order].tolist(),
            strict=True,
        )
        steps = _of_worker(list(prompts), _edges(start_s, end_s), budget_tokens)
        rows += [(float(worker), *step) for step in steps]
    table = np.array(rows, np.float64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _edges(start_s: Floats, end_s: Floats) -> list[float]:
    edges = np.sort(np.concatenate((start_s, end_s)))
    kept = np.concatenate(([True], np.diff(edges) > _EDGE_S))
    found: list[float] = edges[kept].tolist()
    return found


def _of_worker(
    prompts: list[Any], edges: list[float], budget: float
) -> list[tuple[float, float, float]]:
    """Seconds, tokens and work of each step. A prompt longer than a step hides edges: left out."""
    found: list[tuple[float, float, float]] = []
    place = 0
    rest, before, until_s = 0.0, 0.0, 0.0
    for begins_s, ends_s in pairwise(edges):
        tokens = work = 0.0
        hidden = rest > budget
        if rest > 0 and until_s > begins_s + _EDGE_S:
            tokens, work = rest, rest * (before + rest / 2)
        rest = 0.0
        first = place
        while place < len(prompts) and prompts[place][0] <= begins_s + _EDGE_S:
            place += 1
        # why by their ends: who straddles is the last, and clocks jitter within a step
        for _, done_s, new, cached in sorted(prompts[first:place], key=lambda each: each[1]):
            chunk = new if done_s <= ends_s + _EDGE_S else max(min(new, budget - tokens), 0.0)
            tokens += chunk
            work += chunk * (cached + chunk / 2)
            if chunk < new:
                rest, before, until_s = new - chunk, cached + chunk, done_s
        if tokens > 0 and not hidden and tokens <= budget * 1.001:
            found.append((ends_s - begins_s, tokens, work))
        if len(found) >= _STEPS_MAX:
            break
    return found
