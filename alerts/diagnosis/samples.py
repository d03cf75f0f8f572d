"""Single requests as columns: with whom each shared its replica, and how long its tokens took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alerts.diagnosis.matching import Floats, Ints, cells_of_load
from domain.labels import value_of
from domain.leg import LegKind, Outcome
from domain.leg_columns import LegColumns

__all__ = ["STEP_S", "Samples", "samples_of"]

_OK = list(Outcome).index(Outcome.OK)

STEP_S = 10
"""What happens on one replica within so many seconds shares its steps."""

Batches = Mapping[str, Mapping[int, float]]
"""Running requests by replica, and by the begin of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One row per request that decoded at a known batch. `replica` counts into `names`."""

    names: tuple[str, ...]
    pools: tuple[str, ...]
    replica: Ints
    at_s: Floats
    token_s: Floats
    batch: Floats
    prompt_tokens: Floats

    def __len__(self) -> int:
        return len(self.replica)

    @property
    def cells(self) -> Ints:
        """Only what is in one pool, at like batch and like prompt, is alike."""
        pools = np.unique(self.pools, return_inverse=True)[1].astype(np.int64)
        load = cells_of_load(self.batch, self.prompt_tokens)
        return load * (int(pools.max(initial=0)) + 1) + pools.reshape(-1)[self.replica]

    @property
    def clusters(self) -> Ints:
        moments = (self.at_s // STEP_S).astype(np.int64)
        moments -= moments.min(initial=0)
        return self.replica * (int(moments.max(initial=0)) + 1) + moments

    def of(self, name: str) -> NDArray[np.bool_]:
        place = self.names.index(name) if name in self.names else -1
        found: NDArray[np.bool_] = self.replica == place
        return found


def samples_of(legs: LegColumns, batches: Batches) -> Samples:
    """Those that decoded where it is told how many ran in the middle of it."""
    gaps = legs.values["output_tokens"] - 1
    decode_s = legs.values["decode"]
    prompts = _prompts(legs)
    rows = (
        legs.of_kind(LegKind.SERVER, LegKind.DECODE)
        & (legs.outcome == _OK)
        & (gaps > 0)
        & (decode_s > 0)
        & (prompts > 0)
    ).nonzero()[0]
    middle_s = legs.end_at_s[rows] - decode_s[rows] / 2
    names = [value_of(each, "replica") for each in legs.names]
    steps = (middle_s // STEP_S * STEP_S).astype(np.int64)
    told = [batches.get(names[each], {}) for each in legs.series[rows].tolist()]
    batch = np.array(
        [own.get(step, np.nan) for own, step in zip(told, steps.tolist(), strict=True)], float
    )
    known = ~np.isnan(batch)
    rows, batch, middle_s = rows[known], batch[known], middle_s[known]
    order, replica = _replicas(legs, rows, names)
    return Samples(
        names=tuple(names for names, _ in order),
        pools=tuple(pool for _, pool in order),
        replica=replica,
        at_s=middle_s,
        token_s=decode_s[rows] / gaps[rows],
        batch=batch,
        prompt_tokens=prompts[rows],
    )


def _replicas(
    legs: LegColumns, rows: Ints, names: Sequence[str]
) -> tuple[list[tuple[str, str]], Ints]:
    """The replicas of these rows with their pools, and which row is of which."""
    own = [(name, value_of(each, "pool")) for name, each in zip(names, legs.names, strict=True)]
    series = legs.series[rows]
    order = sorted({own[each] for each in np.unique(series).tolist()})
    place = {each: at for at, each in enumerate(order)}
    by_series = np.array([place.get(each, -1) for each in own], np.int64)
    found: Ints = by_series[series] if len(series) else np.zeros(0, np.int64)
    return order, found


def _prompts(legs: LegColumns) -> Floats:
    """What a leg says of its prompt, else what anybody says of the same trace; NaN for neither."""
    own = legs.values["prompt_tokens"]
    traces, place = np.unique(legs.trace, return_inverse=True)
    most = np.full(len(traces), -1.0)
    np.maximum.at(most, place.reshape(-1), np.where(np.isnan(own), -1.0, own))
    found: Floats = np.where(np.isnan(own), most[place.reshape(-1)], own)
    return found
