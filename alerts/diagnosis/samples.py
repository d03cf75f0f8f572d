"""Single requests as columns: with whom each shared its replica, and how long its tokens took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alerts.diagnosis.matching import Floats, Ints, cells_of_load
from domain.labels import value_of
from domain.request import Request

__all__ = ["STEP_S", "Samples", "samples_of"]

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


def samples_of(requests: Sequence[Request], batches: Batches) -> Samples:
    """Those whose replica told how many ran in the middle of their decoding."""
    names: dict[str, int] = {}
    pools: list[str] = []
    rows = []
    for each in requests:
        name = value_of(each.labels, "replica")
        told = batches.get(name)
        if not told or not each.tpot_s or each.decode_s is None or not each.prompt_tokens:
            continue
        middle_s = each.end_at_ns / 1e9 - each.decode_s / 2
        batch = told.get(int(middle_s) // STEP_S * STEP_S)
        if batch is None:
            continue
        if name not in names:
            names[name] = len(names)
            pools.append(value_of(each.labels, "pool"))
        rows.append((names[name], middle_s, each.tpot_s, batch, each.prompt_tokens))
    columns = np.array(rows, float).reshape(len(rows), 5)
    return Samples(
        names=tuple(names),
        pools=tuple(pools),
        replica=columns[:, 0].astype(np.int64),
        at_s=columns[:, 1],
        token_s=columns[:, 2],
        batch=columns[:, 3],
        prompt_tokens=columns[:, 4],
    )
