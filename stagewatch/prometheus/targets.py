"""The targets and series that are known, never more of them than there is room for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from collector.log import RefusalLog
from collector.remote_write_series import NAME
from collector.remote_write_settings import RemoteWriteSettings
from domain.labels import Labels
from exporters.engine.table import OF_EVERY_PROCESS
from stagewatch.prometheus.belief import Belief
from stagewatch.prometheus.flow import UP, Flow, Patience, Stream
from stagewatch.prometheus.naming import Naming, Whose
from stagewatch.prometheus.watch import Watch

__all__ = ["Target", "Targets"]

_EVERYWHERE: Final = OF_EVERY_PROCESS | {UP}


@dataclass(slots=True, eq=False)
class Target:
    """One target, and everyone who writes about it."""

    key: Labels
    belief: Belief
    watch: Watch
    flows: dict[Labels, Flow] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)


class Targets:
    """Who is who. Whoever shares it holds a lock."""

    def __init__(
        self, settings: RemoteWriteSettings, naming: Naming, log: RefusalLog | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._settings = settings
        self._naming = naming
        self._log = log or RefusalLog()
        self._patience = Patience(settle_s=settings.settle_s, patience_s=settings.patience_s)
        self._targets: dict[Labels, Target] = {}
        self._streams: dict[Labels, Stream] = {}

    def __iter__(self) -> Iterator[Target]:
        return iter(self._targets.values())

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def series(self) -> int:
        return len(self._streams)

    def known(self, labels: Labels) -> Stream | None:
        stream = self._streams.get(labels)
        return stream if stream is not None and stream.flow is not None else None

    def stream(self, labels: Labels) -> Stream | None:
        """The stream of a series; a new one if it is an engine's and there is room."""
        known = self.known(labels)
        if known is not None:
            return known
        whose, name = self._naming.whose(labels), dict(labels)[NAME]
        if whose is None:
            self.counts["series_of_no_target"] += 1
            return None
        target = self._targets.get(whose.target)
        if target is None:
            if name in _EVERYWHERE and not self._naming.is_named(whose.target):
                return None
            target = self._begin(whose, labels)
        if target is None or not self._has_room(target, labels):
            return None
        flow = target.flows.setdefault(whose.sender, Flow(self._patience))
        # why intern: names and values are the same in hundreds of series
        labels = tuple((sys.intern(each), sys.intern(value)) for each, value in labels)
        stream = self._streams[labels] = Stream(name=name, labels=labels, flow=flow)
        target.streams.append(stream)
        return stream

    def forget(self, now_s: float) -> None:
        """Let go of what has been silent for long: whole targets, senders, and series that ended."""
        oldest_s = now_s - self._settings.forget_after_s
        for target in list(self._targets.values()):
            silent = {sender for sender, flow in target.flows.items() if flow.heard_s < oldest_s}
            gone = {id(target.flows[sender]) for sender in silent}
            kept: list[Stream] = []
            for one in target.streams:
                if one.flow is None or id(one.flow) in gone or one.heard_s < oldest_s:
                    if one.flow is not None:
                        one.flow.forget(one)
                    del self._streams[one.labels]
                else:
                    kept.append(one)
            target.streams = kept
            for sender in silent:
                self.counts.update(target.flows.pop(sender).counts)
            if not target.flows:
                self.counts.update(target.watch.counts)
                self.counts["failovers"] += target.belief.failovers
                self.counts["forgotten_targets"] += 1
                del self._targets[target.key]

    def refused(self, reason: str, problem: str, labels: Labels) -> None:
        """Count what there is no room for, and name it."""
        self.counts[f"refused_{reason}"] += 1
        series = ", ".join(f"{name}={value}" for name, value in labels)
        self._log.refused(reason, event="series_refused", problem=problem, series=series)

    def _begin(self, whose: Whose, labels: Labels) -> Target | None:
        if len(self._targets) >= self._settings.max_targets:
            self.refused("max_targets", f"there are {len(self)} targets already", labels)
            return None
        target = self._targets[whose.target] = Target(
            key=whose.target,
            belief=Belief(int(self._settings.failover_s * 1000)),
            watch=Watch(self._naming),
        )
        return target

    def _has_room(self, target: Target, labels: Labels) -> bool:
        settings = self._settings
        if len(target.streams) >= settings.max_series_per_target:
            n = len(target.streams)
            self.refused("max_series_per_target", f"the target has {n} series already", labels)
            return False
        if self.series >= settings.max_series:
            self.refused("max_series", f"there are {self.series} series already", labels)
            return False
        return True
