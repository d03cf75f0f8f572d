"""A replica against its like, and time under throttling against time without: at like load."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alerts.diagnosis.facts import Slowed
from alerts.diagnosis.matching import Match, matched
from alerts.diagnosis.samples import STEP_S, Samples

__all__ = ["FEWEST_REQUESTS", "Held", "speeds_of", "throttle_effects"]

FEWEST_REQUESTS = 500
_MOSTLY = 0.5

Held = Mapping[str, Mapping[int, float]]
"""Of a GPU, by cause: for which share of each step it was held down."""


def speeds_of(samples: Samples) -> list[Slowed] | None:
    """Each replica against the others of its pool; None below the minimum data."""
    if len(samples) < FEWEST_REQUESTS:
        return None
    cells, clusters = samples.cells, samples.clusters
    found = []
    for place, name in enumerate(samples.names):
        match = matched(samples.token_s, samples.replica == place, cells, clusters)
        if match is not None:
            found.append(_slowed(match, place=name, pool=samples.pools[place]))
    return found or None


def throttle_effects(
    samples: Samples, held: Mapping[str, Held], serves: Mapping[str, str]
) -> list[Slowed] | None:
    """Of each GPU that was held down, by its worst cause; None where none could be compared.

    `held` is by GPU, `serves` names its replica. Requests of other throttled time are left out.
    """
    under = {
        (gpu, cause): _under(samples, serves[gpu], steps)
        for gpu, causes in held.items()
        if gpu in serves
        for cause, steps in causes.items()
    }
    any_held = np.zeros(len(samples), bool)
    for each in under.values():
        any_held |= each
    cells, clusters = samples.cells, samples.clusters
    found: dict[str, Slowed] = {}
    for (gpu, cause), mine in under.items():
        compared = mine | ~any_held
        match = matched(
            samples.token_s[compared],
            mine[compared],
            cells[compared],
            clusters[compared],
        )
        if match is None:
            continue
        steps = held[gpu][cause]
        part = sum(steps.values()) / len(steps)
        told = _slowed(match, place=serves[gpu], gpu=gpu, cause=cause, share=part)
        if gpu not in found or part > found[gpu].share:
            found[gpu] = told
    return list(found.values()) or None


def _under(samples: Samples, replica: str, steps: Mapping[int, float]) -> np.ndarray:
    """Requests in the middle of whose decoding the GPU was held down for most of the step."""
    moments = (samples.at_s // STEP_S * STEP_S).astype(np.int64)
    throttled = [at_s for at_s, part in steps.items() if part > _MOSTLY]
    found: np.ndarray = samples.of(replica) & np.isin(moments, throttled)
    return found


def _slowed(
    match: Match, *, place: str, pool: str = "", gpu: str = "", cause: str = "", share: float = 0.0
) -> Slowed:
    return Slowed(
        place=place,
        pool=pool,
        gpu=gpu,
        cause=cause,
        share=share,
        factor=match.factor,
        low=match.low,
        high=match.high,
        requests=match.of,
        others=match.against,
    )
