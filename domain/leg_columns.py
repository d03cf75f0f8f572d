"""Legs as columns, a row each: what single processes said of many requests, not joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.labels import Labels
from domain.leg import LegKind

__all__ = ["LEG_VALUES", "LegColumns"]

LEG_VALUES = ("ttft", "e2e", "decode", "itl_max", "prompt_tokens", "output_tokens")
"""What is told of many legs at once."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LegColumns:
    """In `values` (`LEG_VALUES`) NaN is not said. `kind` and `outcome`: places in their enums.

    `trace` is a number that legs of one trace share, and hardly ever others. `series` are places in
    `names`. `length_s` is how long the span is. `reaches_s`: from when on these are all; None where
    they are all of the window.
    """

    trace: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    outcome: NDArray[np.uint8]
    series: NDArray[np.int64]
    names: Sequence[Labels]
    end_at_s: NDArray[np.float64]
    length_s: NDArray[np.float64]
    values: Mapping[str, NDArray[np.float64]]
    finish: Sequence[str]
    reaches_s: int | None = None

    def __len__(self) -> int:
        return len(self.end_at_s)

    @classmethod
    def empty(cls) -> LegColumns:
        """No leg at all."""
        none = np.zeros(0)
        return cls(
            trace=none.astype(np.uint64),
            kind=none.astype(np.uint8),
            outcome=none.astype(np.uint8),
            series=none.astype(np.int64),
            names=(),
            end_at_s=none,
            length_s=none,
            values=dict.fromkeys(LEG_VALUES, none),
            finish=(),
        )

    def of_kind(self, *kinds: LegKind) -> NDArray[np.bool_]:
        """Which rows are of one of these kinds."""
        places = [place for place, kind in enumerate(LegKind) if kind in kinds]
        found: NDArray[np.bool_] = np.isin(self.kind, places)
        return found
