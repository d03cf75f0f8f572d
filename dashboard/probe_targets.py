"""Probed endpoints as a page needs them: each target with what its probes told in a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from collector.query import Reader, Selection, Window
from dashboard.theme import State
from domain.distribution import Distribution, add_all
from domain.labels import Labels, labels_of, project, value_of

__all__ = ["FLOOR", "HOPS", "Target", "targets", "where_probed"]

HOPS = ("dns", "connect", "tls")
"""The network's share of a new connection, in order."""

FLOOR = ("dns", "connect", "tls", "first_byte")
_LATENCIES = (*FLOOR, "ttft", "e2e")
_LEVELS = (
    "buffering",
    "probe_spending",
    "probe_allowance",
    "probe_month_tokens",
    "probe_token_allowance",
)
_BY = ("service", "region", "replica", "model")
_NOT_ASKED = ("capped", "waiting", "no_books")
_SILENT_S = 600
_STEP_S = 10
_RECENT_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One endpoint. `ended`: probes by how they ended, "ok" among them. `up` is the last word."""

    labels: Labels
    latency: Mapping[str, Distribution] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    buffers_at: str = ""
    up: bool | None = None
    reason: str = ""
    heard_at_s: int | None = None
    until_s: int = 0

    def label(self, name: str) -> str:
        return value_of(self.labels, name)

    @property
    def asked(self) -> int:
        """Probes that were really sent."""
        return sum(n for why, n in self.ended.items() if why not in _NOT_ASKED)

    @property
    def failures(self) -> Mapping[str, int]:
        """Those that were sent and did not end well, the most frequent first."""
        bad = {w: n for w, n in self.ended.items() if w != "ok" and w not in _NOT_ASKED}
        return dict(sorted(bad.items(), key=lambda each: (-each[1], each[0])))

    @property
    def held_back(self) -> Mapping[str, int]:
        """Those that were not sent, and why not."""
        return {why: n for why, n in self.ended.items() if why in _NOT_ASKED}

    @property
    def buffers(self) -> bool | None:
        told = self.levels.get("buffering")
        return None if told is None else bool(told)

    def least_s(self, metric: str) -> tuple[float, float] | None:
        """The fastest seen, from both ends of its doubt: what the network takes at least."""
        found = self.latency.get(metric)
        if found is None or not found.n:
            return None
        least = found.quantile(Fraction(1, found.n))
        return None if least is None else (least.low_s, least.high_s)

    @property
    def standing(self) -> tuple[State, str]:
        """The state, and the word for it."""
        if self.heard_at_s is None or self.until_s - self.heard_at_s > _SILENT_S:
            return State.NOT_OBSERVED, "not observed"
        if self.up is False:
            return State.TICKET, self.reason.replace("_", " ")[:24] or "does not answer"
        if self.held_back and not self.asked:
            return State.NO_TRAFFIC, "not asked"
        if self.buffers:
            return State.TICKET, "in lumps"
        return (State.HEALTHY, "answers") if self.up else (State.NO_TRAFFIC, "not asked")


def where_probed(more: Labels = ()) -> Labels:
    """Only what probes told."""
    return labels_of({**dict(more), "source": "probe"})


def targets(reader: Reader, window: Window, where: Labels) -> list[Target]:
    """Every target that was heard of in the window: trouble first, then by name."""
    selection = Selection(window=window, where=where_probed(where), by=_BY)
    latency: defaultdict[Labels, dict[str, Distribution]] = defaultdict(dict)
    for metric in _LATENCIES:
        for each in reader.latency(metric, selection):
            latency[each.labels][metric] = add_all(point.distribution for point in each.points)
    ended = _ended(reader, selection)
    levels, buffers_at = _levels(reader, selection)
    last = _last_words(reader, window, where)
    found = [
        Target(
            labels=labels,
            latency=latency.get(labels, {}),
            ended=ended.get(labels, {}),
            levels=levels.get(labels, {}),
            buffers_at=buffers_at.get(labels, ""),
            up=last[labels][1] if labels in last else None,
            reason=last[labels][2] if labels in last else "",
            heard_at_s=last[labels][0] if labels in last else None,
            until_s=window.until_s,
        )
        for labels in {*latency, *ended, *levels, *last}
    ]
    return sorted(found, key=lambda t: (list(State).index(t.standing[0]), t.labels))


def _ended(reader: Reader, selection: Selection) -> Mapping[Labels, Mapping[str, int]]:
    asked = Selection(window=selection.window, where=selection.where, by=(*_BY, "reason"))
    found: defaultdict[Labels, dict[str, int]] = defaultdict(dict)
    for each in reader.numbers("probes", asked):
        number = round(sum(point.value for point in each.points))
        if number:
            found[project(each.labels, _BY)][value_of(each.labels, "reason")] = number
    return found


def _levels(
    reader: Reader, selection: Selection
) -> tuple[Mapping[Labels, Mapping[str, float]], Mapping[Labels, str]]:
    found: defaultdict[Labels, dict[str, float]] = defaultdict(dict)
    places: dict[Labels, str] = {}
    for metric in _LEVELS:
        by = (*_BY, "reason") if metric == "buffering" else _BY
        asked = Selection(window=selection.window, where=selection.where, by=by)
        for each in reader.numbers(metric, asked):
            labels = project(each.labels, _BY)
            last = each.points[-1].last
            # why the largest: a place that has held answers back stands beside one that has not
            found[labels][metric] = max(last, found[labels].get(metric, last))
            if metric == "buffering" and last:
                places[labels] = value_of(each.labels, "reason")
    return found, places


def _last_words(
    reader: Reader, window: Window, where: Labels
) -> Mapping[Labels, tuple[int, bool, str]]:
    """When each was last heard of, whether it answered, and why not."""
    since_s = max(window.since_s, window.until_s - _RECENT_S)
    recent = Window(since_s=since_s, until_s=window.until_s)
    asked = Selection(window=recent, where=where_probed(where), by=(*_BY, "reason"), step_s=_STEP_S)
    found: dict[Labels, tuple[int, bool, str]] = {}
    for each in reader.numbers("up", asked):
        labels, newest = project(each.labels, _BY), each.points[-1]
        word = (newest.until_s, bool(newest.last), value_of(each.labels, "reason"))
        known = found.get(labels)
        # why the failing one of two within a step: the other is told again with the next probe
        if known is None or (word[0], not word[1]) > (known[0], not known[1]):
            found[labels] = word
    return found
