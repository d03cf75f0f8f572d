"""The splits that a review compares: the current one first, its neighbours, and those by formula.

Never more workers of a GPU type than there are, and those that stand ready. Merged workers are
always among them: disaggregation is a choice, not a given.
"""

from __future__ import annotations

from itertools import product

from review.period import Kind
from review.rails import Rails
from review.sizing import Sizing
from review.split import Split

__all__ = ["alternatives_of", "merged_of", "moves_between", "one_less"]


def alternatives_of(current: Split, sizing: Sizing | None, rails: Rails) -> tuple[Split, ...]:
    """At most `splits_max`, the current one first, then the nearest."""
    found = [current]
    most = _available(current, rails.spare_workers)
    for candidate in (*_neighbours(current), *_by_formula(current, sizing)):
        if candidate is not None and candidate not in found and _affordable(candidate, most):
            found.append(candidate)
    merged = merged_of(current)
    if merged is not None and merged not in found:
        found.insert(min(rails.splits_max - 1, len(found)), merged)
    return tuple(found[: rails.splits_max])


def merged_of(current: Split) -> Split | None:
    """The same GPUs, each doing both; None where they do, or where types are mixed."""
    gpus = {kind.gpu for kind, _ in current.counts}
    if current.merged or len(gpus) > 1:
        return None
    version = current.counts[0][0].engine_version
    return Split(((Kind(role="both", gpu=gpus.pop(), engine_version=version), current.workers),))


def moves_between(current: Split, other: Split) -> dict[str, int]:
    """By role, how many workers more or fewer."""
    return {
        role: other.of(role) - current.of(role)
        for role in ("prefill", "decode", "both")
        if other.of(role) != current.of(role)
    }


def one_less(split: Split) -> tuple[Split, ...]:
    """The splits that the loss of one worker leaves."""
    found = (split.changed([(kind, -1)]) for kind, _ in split.counts)
    return tuple(each for each in found if each is not None)


def _neighbours(current: Split) -> list[Split | None]:
    """Swaps first: they cost nothing. Then one worker more or less, then two."""
    prefill = [kind for kind, _ in current.counts if kind.role == "prefill"]
    decode = [kind for kind, _ in current.counts if kind.role == "decode"]
    pairs = [(p, d) for p, d in product(prefill, decode) if p.gpu == d.gpu]
    kinds = [kind for kind, _ in current.counts]
    swaps = [current.changed([(p, by), (d, -by)]) for by in (1, -1, 2, -2) for p, d in pairs]
    single = [current.changed([(kind, by)]) for by in (-1, 1) for kind in kinds]
    double = [
        current.changed([(p, by), (d, other)])
        for by, other in ((-1, -1), (1, 1), (2, -1), (-1, 2))
        for p, d in pairs
    ]
    return [*swaps, *single, *double]


def _by_formula(current: Split, sizing: Sizing | None) -> list[Split | None]:
    """Around what the formulas say, where each role has one kind."""
    prefill, decode = (
        [kind for kind, _ in current.counts if kind.role == role] for role in ("prefill", "decode")
    )
    if sizing is None or len(prefill) != 1 or len(decode) != 1:
        return []
    return [
        current.changed(
            [
                (prefill[0], sizing.prefill + more - current.of("prefill")),
                (decode[0], sizing.decode + other - current.of("decode")),
            ]
        )
        for more, other in product((0, -1, 1, -2, 2, 3), (0, 1, -1, 2))
        if sizing.prefill + more > 0 and sizing.decode + other > 0
    ]


def _available(current: Split, spare: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, count in current.counts:
        counts[kind.gpu] = counts.get(kind.gpu, 0) + count
    return {gpu: count + spare for gpu, count in counts.items()}


def _affordable(split: Split, most: dict[str, int]) -> bool:
    used: dict[str, int] = {}
    for kind, count in split.counts:
        used[kind.gpu] = used.get(kind.gpu, 0) + count
    return all(count <= most.get(gpu, 0) for gpu, count in used.items())
