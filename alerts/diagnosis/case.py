"""One question while it is asked: about whom, of when, and what has been found so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from alerts.change import Change
from alerts.diagnosis.cards import Cards
from alerts.diagnosis.facts import Aborted, Arrived, Restarted, Slowed, Stood
from alerts.diagnosis.places import Worst
from alerts.diagnosis.promises import Promised
from alerts.diagnosis.signals import Places, Signal
from alerts.diagnosis.windows import Looked
from collector.query import Numbers, Reader, Selection, Stages, Window
from domain.labels import Labels, value_of
from domain.leg_columns import LegColumns
from domain.request import Stage

__all__ = ["Case"]

_MOST_NAMES = 3
_MANY, _FEW = 20_000, 2000
"""Legs are read in numbers only where something is to be proven."""


@dataclass(slots=True, kw_only=True)
class Case:
    """What the parts of a diagnosis share. What is not told is not put; `absent` says why.

    `events`: what others reported lately, None where nobody keeps reports. `levels` are gauges by
    replica, `batches` how many ran in each step. `suspect`: whether a replica may be slow.
    """

    reader: Reader
    where: Labels
    looked: Looked
    promised: Sequence[Promised] = ()
    events: Sequence[Change] | None = None
    numbers: dict[Signal, float] = field(default_factory=dict)
    before: dict[Signal, float] = field(default_factory=dict)
    places: dict[Signal, Places] = field(default_factory=dict)
    places_before: dict[Signal, Places] = field(default_factory=dict)
    absent: dict[Signal, str] = field(default_factory=dict)
    slowed: Sequence[Slowed] | None = None
    speeds: Sequence[Slowed] | None = None
    stood: Sequence[Stood] | None = None
    aborted: Sequence[Aborted] | None = None
    restarted: Sequence[Restarted] | None = None
    arrived: Sequence[Arrived] | None = None
    stages: Stages | None = None
    stages_before: Stages | None = None
    replicas: Sequence[Stages] = ()
    levels: Mapping[str, Sequence[Numbers]] = field(default_factory=dict)
    batches: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    cards: Cards | None = None
    suspect: bool | None = None
    guilty: Stage | None = None
    worst: dict[Stage, Worst] = field(default_factory=dict)
    legs_now: LegColumns | None = None

    @property
    def service(self) -> str:
        return value_of(self.where, "service")

    @property
    def now(self) -> Window:
        return self.looked.now

    @property
    def slow(self) -> bool:
        """Whether anything is wrong with latency or answers at all."""
        return self.looked.burning or bool(self.looked.broken) or bool(self.stood)

    @property
    def failed(self) -> int:
        return sum(each.flow.failed or 0 for each in self.replicas)

    def put(self, signal: Signal, value: float | None) -> None:
        """A number that is one; what cannot be is told as absent."""
        if value is None:
            return
        if math.isfinite(value):
            self.numbers[signal] = value
        else:
            self.absent[signal] = f"told as {value}"

    def put_before(self, signal: Signal, value: float | None) -> None:
        if value is not None and math.isfinite(value):
            self.before[signal] = value

    def selection(self, by: tuple[str, ...] = (), *, step_s: int | None = None) -> Selection:
        """Of this service, while it is looked at."""
        return Selection(window=self.now, where=self.where, by=by, step_s=step_s)

    def gauge(
        self, metric: str, window: Window | None = None, *, by: str = "replica"
    ) -> dict[str, float]:
        """What each last said of itself in a window; empty where nobody told."""
        asked = Selection(window=window or self.now, where=self.where, by=(by,))
        return {
            value_of(each.labels, by): each.points[-1].last
            for each in self.reader.numbers(metric, asked)
            if each.points
        }

    def legs(self) -> LegColumns:
        """What single processes said of requests while it is looked at; asked once."""
        if self.legs_now is None:
            most = _MANY if self.slow else _FEW
            self.legs_now = self.reader.legs(self.now, where=self.where, most=most)
        return self.legs_now

    def sound(self) -> None:
        """What no number can be is taken out, and said."""
        for numbers in (self.numbers, self.before):
            for signal in [name for name, value in numbers.items() if not math.isfinite(value)]:
                self.absent[signal] = f"told as {numbers.pop(signal)}"
        for told in (self.places, self.places_before):
            for signal, places in list(told.items()):
                odd = sorted(name for name, value in places.items() if not math.isfinite(value))
                if odd:
                    kept = {name: value for name, value in places.items() if name not in odd}
                    self.absent[signal] = f"no number on {', '.join(odd[:_MOST_NAMES])}"
                    if kept:
                        told[signal] = kept
                    else:
                        del told[signal]
