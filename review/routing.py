"""How a router chooses workers, told from the choices it made.

The policy under which the observed choices are likeliest; round robin where more than 85 % of the
choices are the next worker's. Every policy may err: one choice in fifty is allowed to be anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FEWEST_REQUESTS",
    "LEAST_LOADED",
    "LEAST_WAITING",
    "NAMES",
    "RANDOM",
    "ROUND_ROBIN",
    "TWO_CHOICES",
    "TWO_WAITING",
    "Choice",
    "choice_of",
    "decode_choice",
    "prefill_choice",
]

Floats = NDArray[np.float64]

ROUND_ROBIN: Final = 0
LEAST_LOADED: Final = 1  # by tokens: outstanding at prefill, in the KV cache at decode
TWO_CHOICES: Final = 2  # the better of two by dice: outstanding tokens, requests at decode
RANDOM: Final = 3
FEWEST_REQUESTS: Final = 4
LEAST_WAITING: Final = 5  # by tokens that wait, those inside a step not counted
TWO_WAITING: Final = 6

NAMES: Final = (
    "round robin",
    "least loaded",
    "the better of two",
    "random",
    "fewest requests",
    "least waiting",
    "the better of two, by what waits",
)
_NEXT_SHARE: Final = 0.85
_ERRS: Final = 0.02
_WAITING: Final[Mapping[int, int]] = {LEAST_LOADED: LEAST_WAITING, TWO_CHOICES: TWO_WAITING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A policy and why: the share of choices that were the next worker, log likelihoods by policy."""

    policy: int
    next_share: float = 1.0
    likelihood: Mapping[int, float] = field(default_factory=dict)

    @property
    def best(self) -> float:
        return max(self.likelihood.values(), default=0.0)

    def __str__(self) -> str:
        return NAMES[self.policy]


def choice_of(
    at_s: Floats, until_s: Floats, worker: NDArray[Any], weight: Floats, workers: int
) -> Choice:
    """The policy that explains who got what. `until_s` is when a request's weight is gone."""
    if workers < 2 or len(at_s) < 2:
        return Choice(policy=LEAST_LOADED)
    order = np.argsort(at_s, kind="stable")
    at_s, until_s, worker, weight = (each[order] for each in (at_s, until_s, worker, weight))
    next_share = float(np.mean((worker[1:] - worker[:-1]) % workers == 1))
    loads = np.array([_load(at_s, until_s, weight, worker == each) for each in range(workers)])
    taken = loads[worker, np.arange(len(at_s))]
    above = (loads > taken + 1e-9).sum(0)
    equal = (np.abs(loads - taken) <= 1e-9).sum(0)
    chance = {
        LEAST_LOADED: np.where(above + equal == workers, 1.0 / equal, 0.0),
        TWO_CHOICES: (2 * above + equal) / workers**2,
        RANDOM: np.full(len(at_s), 1.0 / workers),
    }
    likelihood = {
        policy: float(np.mean(np.log((1 - _ERRS) * each + _ERRS / workers)))
        for policy, each in chance.items()
    }
    best = max(likelihood, key=lambda policy: likelihood[policy])
    policy = ROUND_ROBIN if next_share > _NEXT_SHARE else best
    return Choice(policy=policy, next_share=next_share, likelihood=likelihood)


def prefill_choice(
    at_s: Floats,
    start_s: Floats,
    end_s: Floats,
    worker: NDArray[Any],
    *,
    tokens: Floats,
    workers: int,
) -> Choice:
    """By what is outstanding, or by what waits only: whichever explains more."""
    outstanding = choice_of(at_s, end_s, worker, tokens, workers)
    waiting = choice_of(at_s, start_s, worker, tokens, workers)
    if outstanding.policy == ROUND_ROBIN or outstanding.best >= waiting.best:
        return outstanding
    policy = _WAITING.get(waiting.policy, waiting.policy)
    return Choice(policy=policy, next_share=waiting.next_share, likelihood=waiting.likelihood)


def decode_choice(
    orders: Mapping[str, Floats],
    end_s: Floats,
    worker: NDArray[Any],
    tokens: Floats,
    workers: int,
) -> Choice:
    """By turn in any of the orders in which requests can be counted, else by requests or tokens."""
    ones = np.ones(len(end_s))
    by_order = {
        name: choice_of(at_s, end_s, worker, ones, workers) for name, at_s in orders.items()
    }
    turns = max(by_order.values(), key=lambda each: each.next_share)
    if workers < 2 or turns.policy == ROUND_ROBIN:
        return turns
    at_s = next(iter(orders.values()))
    by_request = next(iter(by_order.values()))
    by_token = choice_of(at_s, end_s, worker, tokens, workers)
    if by_request.best < by_token.best:
        return by_token
    policy = FEWEST_REQUESTS if by_request.policy == LEAST_LOADED else by_request.policy
    return Choice(policy=policy, next_share=by_request.next_share, likelihood=by_request.likelihood)


def _load(at_s: Floats, until_s: Floats, weight: Floats, own: NDArray[np.bool_]) -> Floats:
    """What a worker had outstanding whenever anybody was dispatched."""
    came = np.concatenate(([0.0], np.cumsum(weight[own])))
    order = np.argsort(until_s[own])
    went = np.concatenate(([0.0], np.cumsum(weight[own][order])))
    before = np.searchsorted(at_s[own], at_s, side="left")
    gone = np.searchsorted(until_s[own][order], at_s, side="right")
    return np.asarray(came[before] - went[gone], np.float64)
