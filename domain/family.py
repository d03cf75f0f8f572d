"""Who is above whom among legs: by the parents that spans name, as far as those were sent to us.

A leg's line is what is known of its ancestors; it is *open* where it ends at a parent that nobody
sent. More legs only make lines longer, which is why what is decided by a line stays decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from domain.leg import ALONE, SLICES, Leg, LegKind

__all__ = ["Family"]

_UNCOUNTED = SLICES | {LegKind.LINK}


class Family:
    """Some legs, and the way up from each."""

    def __init__(self, legs: Sequence[Leg]) -> None:
        self._by_id = {(leg.trace_id, leg.span_id): leg for leg in legs}

    def above(self, leg: Leg) -> list[Leg]:
        """Its line, the nearest first."""
        line: list[Leg] = []
        seen = {leg.span_id}
        parent = self._parent(leg)
        while parent is not None and parent.span_id not in seen:
            line.append(parent)
            seen.add(parent.span_id)
            parent = self._parent(parent)
        return line

    def nearest(self, leg: Leg, *kinds: LegKind) -> Leg | None:
        """The nearest of these kinds in its line."""
        return next((each for each in self.above(leg) if each.kind in kinds), None)

    def engine_of(self, piece: Leg) -> Leg | None:
        """The leg that a slice is a piece of: the one above it, links passed over."""
        owner = next((each for each in self.above(piece) if each.kind is not LegKind.LINK), None)
        return owner if owner is not None and owner.kind not in SLICES else None

    def head(self, leg: Leg) -> Leg:
        """The outermost leg of the request that this one belongs to: itself where none is above."""
        line = [each for each in self.above(leg) if each.kind not in _UNCOUNTED]
        return line[-1] if line else leg

    def are_siblings(self, one: Leg, other: Leg) -> bool:
        """Whether their lines meet before either passes a user's call."""
        mine, theirs = set(self._call_line(one)), set(self._call_line(other))
        return not mine.isdisjoint(theirs)

    def clients_of(self, clients: Sequence[Leg], server: Sequence[Leg]) -> list[Leg]:
        """Those of the clients that one server's legs are beneath, each with its own wait.

        They stand in its line; an open line leads to the root of the trace, if that is a client. A
        client that is known by its trace only is above everything in it.
        """
        above = [each for leg in server for each in self.above(leg)]
        line = {each.span_id for each in above}
        held = any(each.kind is LegKind.CLIENT for each in above)
        is_open = not held or any(self._beyond(leg) for leg in server)
        traces = {leg.trace_id for leg in server}
        return [
            client
            for client in clients
            if client.span_id in line
            or (
                client.trace_id in traces
                and (client.parent_id == ALONE or (is_open and not client.parent_id))
            )
        ]

    def _beyond(self, leg: Leg) -> bytes:
        """Where its line is open: the id of the last parent, which may stand for nobody."""
        return [leg, *self.above(leg)][-1].parent_id

    def _parent(self, leg: Leg) -> Leg | None:
        return self._by_id.get((leg.trace_id, leg.parent_id))

    def _call_line(self, leg: Leg) -> Iterator[tuple[bytes, bytes]]:
        """Parents up to the nearest client or frontend; the last may be unknown to us."""
        for each in [leg, *self.above(leg)]:
            if each is not leg and each.kind in (LegKind.CLIENT, LegKind.FRONTEND):
                return
            yield each.trace_id, each.parent_id
