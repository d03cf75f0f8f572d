"""Grouping for chat: what fires together is one message to read; alerts keep keys of their own.

Only people who read along are spared this way. A pager gets each alert by itself, or the second
failure would hide behind the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Group", "Waiting", "grouped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A notification that waits. `about`: what it is grouped by, such as service and severity."""

    id: int
    event: str
    about: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Notifications that make one message, in order; it is due when its window has passed."""

    ids: tuple[int, ...]
    due_s: float


def grouped(waiting: Sequence[Waiting], *, window_s: float) -> list[Group]:
    """What began within one window of the first of its kind, in order of what is due.

    Kinds are event and what it is about. Each notification is in exactly one group, and none waits
    for longer than the window, however many follow.
    """
    found: dict[tuple[str, str], list[list[Waiting]]] = {}
    for each in sorted(waiting, key=lambda one: (one.since_s, one.id)):
        groups = found.setdefault((each.event, each.about), [])
        if groups and each.since_s - groups[-1][0].since_s <= window_s:
            groups[-1].append(each)
        else:
            groups.append([each])
    made = [
        Group(ids=tuple(each.id for each in group), due_s=group[0].since_s + window_s)
        for groups in found.values()
        for group in groups
    ]
    return sorted(made, key=lambda each: (each.due_s, each.ids))
