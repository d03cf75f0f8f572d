"""Requests and tokens since this process began, as counters, each with the trace of a slow one.

They are asked of the store as increases since the same instant each time, so that what arrives late
is counted too. A counter never falls: if a better source takes over and counts fewer, it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.query import Reader, Selection, Window
from domain.labels import Labels, labels_of, project
from domain.leg import Outcome
from domain.request import Request
from stagewatch.summary.family import Exemplar, Family, Kind, Sample
from stagewatch.summary.latencies import Groups

__all__ = ["Counted", "RequestCounts"]

_REQUESTS = {
    "started": "requests_started",
    "finished": "requests_finished",
    "failed": "requests_failed",
    "cancelled": "requests_cancelled",
    "rejected": "requests_rejected",
}
_TOKENS = {"prompt": "prompt_tokens", "output": "generation_tokens"}
_FINISHED = _REQUESTS["finished"]
_NAMES = (*_REQUESTS.values(), *_TOKENS.values())
_LOOKED_AT = 200

Counted = Mapping[str, Mapping[Labels, float]]
"""Each metric's increase by group."""


class RequestCounts:
    """Of groups by these labels, from `since_s` on. One thread asks."""

    def __init__(self, reader: Reader, by: Sequence[str], *, since_s: int) -> None:
        self._reader, self._by, self._since_s = reader, tuple(by), since_s
        self._most: dict[tuple[str, Labels], float] = {}

    def count(self, until_s: int) -> Counted:
        """Each metric's increase, by group."""
        if until_s <= self._since_s:
            return {name: {} for name in _NAMES}
        window = Window(since_s=self._since_s, until_s=until_s)
        selection = Selection(window=window, by=self._by)
        found = {name: self._increases(name, selection) for name in _NAMES}
        # why both: only pages count answers, but whoever measures their E2E knows of them as well
        return {**found, _FINISHED: {**self._measured(selection), **found[_FINISHED]}}

    def families(self, counted: Counted, groups: Groups, window: Window) -> list[Family]:
        """Only of these groups, with exemplars of the window."""
        slow = self._slow(window)
        requests = [
            self._sample(metric, {"outcome": outcome}, group, value, slow.get((outcome, group)))
            for outcome, metric in _REQUESTS.items()
            for group, value in counted[metric].items()
            if group in groups
        ]
        tokens = [
            self._sample(metric, {"direction": direction}, group, value, None)
            for direction, metric in _TOKENS.items()
            for group, value in counted[metric].items()
            if group in groups
        ]
        return [
            Family(
                name="stagewatch_service_requests_total",
                help="Requests since this process began, by what became of them.",
                kind=Kind.COUNTER,
                samples=requests,
            ),
            Family(
                name="stagewatch_service_tokens_total",
                help="Tokens since this process began, prompt and output.",
                kind=Kind.COUNTER,
                samples=tokens,
            ),
        ]

    def _increases(self, metric: str, selection: Selection) -> dict[Labels, float]:
        found = self._reader.numbers(metric, selection)
        return {each.labels: sum(point.value for point in each.points) for each in found}

    def _measured(self, selection: Selection) -> dict[Labels, float]:
        found = self._reader.latency("e2e", selection)
        return {
            each.labels: float(sum(point.distribution.n for point in each.points)) for each in found
        }

    def _sample(
        self,
        metric: str,
        about: Mapping[str, str],
        group: Labels,
        value: float,
        exemplar: Exemplar | None,
    ) -> Sample:
        most = max(value, self._most.get((metric, group), 0.0))
        self._most[metric, group] = most
        labels = labels_of({**dict(group), **about})
        return Sample(labels=labels, value=most, exemplar=exemplar)

    def _slow(self, window: Window) -> dict[tuple[str, Labels], Exemplar]:
        """The slowest request that ended in the window, by what became of it and by group."""
        found: dict[tuple[str, Labels], Exemplar] = {}
        for each in self._reader.requests(window, limit=_LOOKED_AT, slowest_by="e2e"):
            key = (_WORDS[each.outcome], project(each.labels, self._by))
            if key not in found and each.e2e_s is not None:
                found[key] = _exemplar(each, each.e2e_s)
        return found


_WORDS = {
    Outcome.OK: "finished",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "cancelled",
    Outcome.REJECTED: "rejected",
}


def _exemplar(request: Request, e2e_s: float) -> Exemplar:
    return Exemplar(trace_id=request.trace_id.hex(), value=e2e_s, at_s=request.end_at_ns / 1e9)
