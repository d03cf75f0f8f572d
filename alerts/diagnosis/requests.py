"""Single requests as signals: cut answers, lengths, hops, and who is slow at like load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alerts.diagnosis.case import Case
from alerts.diagnosis.facts import Aborted
from alerts.diagnosis.samples import samples_of
from alerts.diagnosis.signals import Signal
from alerts.diagnosis.speeds import FEWEST_REQUESTS, speeds_of, throttle_effects
from domain.leg import LegKind, Outcome
from domain.leg_columns import LegColumns

__all__ = ["aborted", "ask_lengths", "ask_requests"]

_HELD = 0.05
_FEWEST = 300
_FEW_CHUNKS = 50.0
_LONG = 0.99
_BEFORE = 5000
_FAILED = list(Outcome).index(Outcome.FAILED)
_OUTSIDE_FIRST = (
    (LegKind.CLIENT,),
    (LegKind.FRONTEND,),
    (LegKind.SERVER, LegKind.PREFILL, LegKind.DECODE),
)
_NOT_NOW = "asked only while something is slow"


def ask_requests(case: Case) -> None:
    """How long answers are, which were cut short, where a first chunk is held back, who is slow."""
    legs = case.legs()
    case.put(Signal.OUTPUT_P50, _middle(_by_trace(legs, "output_tokens")))
    if case.failed:
        case.aborted = aborted(legs)
        case.put(Signal.QUOTA_SHARE, _refused_share(legs))
    _hops(case, legs)
    if not case.slow:
        case.absent[Signal.SPEED] = case.absent[Signal.THROTTLE_EFFECT] = _NOT_NOW
        return
    held = case.cards is not None and any(
        part > _HELD for part in case.cards.places.get(Signal.THROTTLED, {}).values()
    )
    if case.suspect or held:
        _compare(case, legs)


def aborted(legs: LegColumns) -> list[Aborted]:
    """The answers that failed, each as the outermost of those who saw it fail."""
    failed = legs.outcome == _FAILED
    seen = np.zeros(0, np.uint64)
    found: list[Aborted] = []
    for kinds in _OUTSIDE_FIRST:
        mine = failed & legs.of_kind(*kinds) & ~np.isin(legs.trace, seen)
        found += [_cut(legs, row) for row in mine.nonzero()[0].tolist()]
        seen = np.union1d(seen, legs.trace[mine])
    return found


def ask_lengths(case: Case) -> None:
    """The share of prompt tokens in prompts longer than nearly all of the baseline were."""
    if case.looked.before is None:
        case.absent[Signal.LONG_PROMPT_SHARE] = "nothing to compare with"
        return
    then = _by_trace(
        case.reader.legs(case.looked.before, where=case.where, most=_BEFORE), "prompt_tokens"
    )
    now = _by_trace(case.legs(), "prompt_tokens")
    if len(then) < _FEWEST or not len(now):
        case.absent[Signal.LONG_PROMPT_SHARE] = f"{len(then)} of {_FEWEST} prompts before"
        return
    limit = float(np.quantile(then, _LONG))
    case.put(Signal.LONG_PROMPT_SHARE, _share_above(now, limit))
    # why not 0: a share that never was has no factor
    usual = max(_share_above(then, limit), 1 - _LONG)
    case.put_before(Signal.LONG_PROMPT_SHARE, usual)


def _share_above(tokens: NDArray[np.float64], limit: float) -> float:
    whole = float(tokens.sum())
    return float(tokens[tokens > limit].sum()) / whole if whole > 0 else 0.0


def _cut(legs: LegColumns, row: int) -> Aborted:
    told = legs.finish[row]
    e2e_s, gap_s = float(legs.values["e2e"][row]), float(legs.values["itl_max"][row])
    return Aborted(
        duration_s=float(legs.length_s[row]) if np.isnan(e2e_s) else e2e_s,
        status=int(told) if len(told) == 3 and told.isascii() and told.isdigit() else None,
        last_gap_s=None if np.isnan(gap_s) else gap_s,
        at_s=float(legs.end_at_s[row]),
    )


def _refused_share(legs: LegColumns) -> float | None:
    """Of the answers whose sender tells how they failed; None where none does."""
    failed = [each for each in aborted(legs) if each.status is not None]
    if not failed:
        return None
    answers = len(np.unique(legs.trace))
    return sum(each.status == 429 for each in failed) / answers


def _by_trace(legs: LegColumns, name: str) -> NDArray[np.float64]:
    """The most that anybody said of each trace; those of which nobody did are left out."""
    values = legs.values[name]
    known = ~np.isnan(values)
    traces, place = np.unique(legs.trace[known], return_inverse=True)
    found = np.zeros(len(traces))
    np.maximum.at(found, place.reshape(-1), values[known])
    return found[found > 0]


def _middle(values: NDArray[np.float64]) -> float | None:
    return float(np.median(values)) if len(values) else None


def _hops(case: Case, legs: LegColumns) -> None:
    """The middle share of the whole after which a first chunk came, from the engine outwards.

    Only of answers so long that many chunks were on their way.
    """
    long = legs.values["output_tokens"] >= _FEW_CHUNKS
    shares = {
        hop: _middle(_ratios(legs, long & legs.of_kind(*kinds)))
        for hop, kinds in (
            ("the engine", (LegKind.SERVER, LegKind.PREFILL)),
            ("the gateway", (LegKind.FRONTEND,)),
            ("the client", (LegKind.CLIENT,)),
        )
    }
    told = {hop: share for hop, share in shares.items() if share is not None}
    if len(told) > 1:
        case.places[Signal.HOPS] = told | dict(case.places.get(Signal.HOPS, {}))


def _ratios(legs: LegColumns, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    e2e_s, ttft_s = legs.values["e2e"][rows], legs.values["ttft"][rows]
    e2e_s = np.where(np.isnan(e2e_s), legs.length_s[rows], e2e_s)
    known = ~np.isnan(ttft_s) & (e2e_s > 0)
    return ttft_s[known] / e2e_s[known]


def _compare(case: Case, legs: LegColumns) -> None:
    samples = samples_of(legs, case.batches)
    case.speeds = speeds_of(samples)
    if case.speeds is None:
        told = f"{len(samples)} of {FEWEST_REQUESTS} requests at a known batch"
        case.absent[Signal.SPEED] = told
    if case.cards is not None and case.cards.held:
        case.slowed = throttle_effects(samples, case.cards.held, case.cards.serves)
