"""Legs of a long trace in groups of which none can tell anything of another.

An agent's trace may hold thousands of calls. What two legs tell together needs a line between them:
a parent that was sent to us, a room, or for two halves the one who asked for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from domain.leg import Leg, LegKind

__all__ = ["kin"]

_HALVES = frozenset((LegKind.PREFILL, LegKind.DECODE))
_CALLS = frozenset((LegKind.CLIENT, LegKind.FRONTEND))

_Key = tuple[object, ...]


def kin(legs: Sequence[Leg]) -> list[list[Leg]]:
    """The groups, and the legs of each, in the order in which they stand here."""
    known = {(leg.trace_id, leg.span_id): leg for leg in legs}
    chief: dict[_Key, _Key] = {}
    for leg in legs:
        own = (leg.trace_id, leg.span_id)
        for tie in _ties(leg, known):
            chief[_find(chief, tie)] = _find(chief, own)
    found: dict[_Key, list[Leg]] = {}
    for leg in legs:
        found.setdefault(_find(chief, (leg.trace_id, leg.span_id)), []).append(leg)
    return list(found.values())


def _ties(leg: Leg, known: Mapping[tuple[bytes, bytes], Leg]) -> Iterator[_Key]:
    """Its parent, if that was sent, its room, and of a half who asked for it."""
    if (leg.trace_id, leg.parent_id) in known:
        yield leg.trace_id, leg.parent_id
    if leg.room:
        yield "room", leg.room
    if leg.kind in _HALVES and (asker := _asker(leg, known)):
        # why no other leg: brothers under an agent that nobody sent are so many requests
        yield "asker", leg.trace_id, asker


def _asker(half: Leg, known: Mapping[tuple[bytes, bytes], Leg]) -> bytes:
    """The last parent of its line below a user's call, whether that was sent or not."""
    seen, at = {half.span_id}, half
    while (above := known.get((at.trace_id, at.parent_id))) is not None:
        if above.kind in _CALLS or above.span_id in seen:
            break
        seen.add(above.span_id)
        at = above
    return at.parent_id


def _find(chief: dict[_Key, _Key], key: _Key) -> _Key:
    while (above := chief.setdefault(key, key)) != key:
        chief[key] = chief.setdefault(above, above)  # why: half the way the next time
        key = above
    return key
