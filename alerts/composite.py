"""A promise made of others: how it stands, from how they stand. It is read only; its parts page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

from alerts.ledger import CompositeStanding, Standing, StandingState
from alerts.promise import Composite
from domain.slice import Tally

__all__ = ["standing_of"]

_Range = tuple[Fraction, Fraction]


def standing_of(composite: Composite, standings: Mapping[str, Standing]) -> CompositeStanding:
    """Without weights the product of its parts, as of serial and independent ones.

    With weights, which multiply burn, budget and burn are the weighted means of the parts'.
    """
    parts = [standings[each] for each in composite.of if each in standings]
    missing = [each for each in composite.of if each not in standings]
    target = _target(composite, parts)
    ratio = None if missing else _product([_ratio(_period(each)) for each in parts])
    if composite.weights:
        burn = _mean([_burn(each) for each in parts], composite.weights)
        remaining = _mean([_remaining(each) for each in parts], composite.weights)
    else:
        burn = _burnt(_product([_ratio(_tally(each.last_hour)) for each in parts]), target)
        spent = _burnt(ratio, target)
        remaining = spent and (1 - spent[1], 1 - spent[0])
    return CompositeStanding(
        id=composite.id,
        name=composite.name,
        description=composite.description,
        state=_worst(parts),
        target=target,
        weights=composite.weights,
        parts=parts,
        missing=missing,
        ratio_low=ratio and ratio[0],
        ratio_high=ratio and ratio[1],
        remaining_low=None if missing else remaining and remaining[0],
        remaining_high=None if missing else remaining and remaining[1],
        burn_low=None if missing else burn and burn[0],
        burn_high=None if missing else burn and burn[1],
    )


def _target(composite: Composite, parts: Sequence[Standing]) -> Fraction:
    """What is promised of it; unsaid, what follows from its parts."""
    if composite.target is not None:
        return composite.target
    return prod((each.objective.target for each in parts), start=Fraction(1))


def _worst(parts: Sequence[Standing]) -> StandingState:
    order = list(StandingState)
    found = [order.index(each.state) for each in parts]
    return order[min(found)] if found else StandingState.NOT_OBSERVED


def _period(standing: Standing) -> tuple[int, int, int]:
    budget = standing.budget
    return budget.spent_low, budget.spent_high, budget.total


def _tally(counted: Tally) -> tuple[int, int, int]:
    return counted.bad_low, counted.bad_high, counted.total


def _ratio(counted: tuple[int, int, int]) -> _Range | None:
    """The share that was good, at least and at most."""
    bad_low, bad_high, total = counted
    return (1 - Fraction(bad_high, total), 1 - Fraction(bad_low, total)) if total else None


def _product(ratios: Sequence[_Range | None]) -> _Range | None:
    known = [each for each in ratios if each is not None]
    if not known or len(known) < len(ratios):
        return None
    one = Fraction(1)
    return prod((low for low, _ in known), start=one), prod((high for _, high in known), start=one)


def _burnt(ratio: _Range | None, target: Fraction) -> _Range | None:
    """How many budgets were spent, at least and at most."""
    if ratio is None or target >= 1:
        return None
    return (1 - ratio[1]) / (1 - target), (1 - ratio[0]) / (1 - target)


def _burn(standing: Standing) -> _Range | None:
    low, high = standing.burn_low, standing.burn_high
    return None if low is None or high is None else (low, high)


def _remaining(standing: Standing) -> _Range | None:
    low, high = standing.budget.remaining_low, standing.budget.remaining_high
    return None if low is None or high is None else (low, high)


def _mean(ranges: Sequence[_Range | None], weights: Sequence[Fraction]) -> _Range | None:
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges) or len(known) != len(weights):
        return None
    none, weighed = Fraction(0), list(zip(weights, known, strict=True))
    whole = sum(weights, none)
    low = sum((weight * each[0] for weight, each in weighed), none)
    high = sum((weight * each[1] for weight, each in weighed), none)
    return low / whole, high / whole
