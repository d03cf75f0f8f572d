"""Requests as a page asks for them: many as columns, one with all its legs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.labels import Labels
from domain.request import Leg, Request

__all__ = ["REQUEST_VALUES", "RequestColumns", "Traced"]

REQUEST_VALUES = (
    "ttft",
    "e2e",
    "tpot",
    "itl_max",
    "network",
    "overhead",
    "queue",
    "prefill",
    "kv_transfer",
    "decode",
    "prompt_tokens",
    "output_tokens",
)
"""What is told of many requests at once."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestColumns:
    """Many requests, newest first: one row each; in `values` (`REQUEST_VALUES`) NaN is not measured.

    TTFT and E2E are the server's, the client's where only a client told. `outcome`: the place in
    `Outcome`. `reaches_s`: from when on these are all; None where they are all of the window.
    """

    trace_ids: Sequence[bytes]
    end_at_s: NDArray[np.float64]
    outcome: NDArray[np.uint8]
    complete: NDArray[np.bool_]
    labels: Sequence[Labels]
    values: Mapping[str, NDArray[np.float64]]
    reaches_s: int | None = None

    @classmethod
    def empty(cls) -> RequestColumns:
        """No request at all."""
        none = np.zeros(0)
        return cls(
            trace_ids=(),
            end_at_s=none,
            outcome=none.astype(np.uint8),
            complete=none.astype(bool),
            labels=(),
            values=dict.fromkeys(REQUEST_VALUES, none),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One request, and what each process said of it."""

    request: Request
    legs: Sequence[Leg]
