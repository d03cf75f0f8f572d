"""Where a group's requests spend their time: stage by stage, with what nobody measured named.

Means of a plain engine's stages are over the requests that have the stage. Halves of a
disaggregated pair are measured apart (two queues per request), so there a stage's mean is its sum
over the number of whole requests; in both cases the server's stages sum to the mean E2E.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.query import Flow, Selection, Stages, StageShare, Window
from collector.readings import groups, numbers
from collector.snapshot import Snapshot
from collector.tile_rows import gather, plan
from domain.distribution import EMPTY, Distribution
from domain.labels import Labels, value_of
from domain.request import Stage

__all__ = ["stages"]

_HALVES = frozenset(("prefill", "decode"))


@dataclass(frozen=True, slots=True)
class _Measured:
    """One latency over the whole window, by group; and the groups in which halves measured it."""

    by_group: Mapping[Labels, Distribution]
    window: Window
    halves: frozenset[Labels]


def stages(snapshot: Snapshot, selection: Selection) -> list[Stages]:
    """One breakdown per group."""
    whole = replace(selection, step_s=None)
    found = {
        metric: _measured(snapshot, metric, whole) for metric in ("e2e", "ttft", *map(str, Stage))
    }
    flows = _flows(snapshot, whole)
    halves = frozenset[Labels]().union(*(each.halves for each in found.values()))
    seen = set(flows).union(*(each.by_group for each in found.values()))
    return [
        _breakdown(found, labels, flows.get(labels, _NO_FLOW), halves=labels in halves)
        for labels in sorted(seen)
    ]


def _measured(snapshot: Snapshot, metric: str, selection: Selection) -> _Measured:
    asked = plan(snapshot, metric, selection)
    names, group_of = groups(asked.series, selection.by)
    found = {
        names[g]: tiles.distribution()
        for (g, _), tiles in gather(snapshot, asked, group_of)[0].items()
    }
    halves = {
        names[group_of[number]]
        for number, labels in asked.series.items()
        if value_of(labels, "role") in _HALVES
    }
    window = Window(since_s=asked.steps[0].since_s, until_s=asked.steps[-1].until_s)
    return _Measured(found, window, frozenset(halves & found.keys()))


def _breakdown(
    found: Mapping[str, _Measured], labels: Labels, flow: Flow, *, halves: bool
) -> Stages:
    e2e = found["e2e"].by_group.get(labels, EMPTY)
    measured = {
        stage: distribution
        for stage in Stage
        if (distribution := found[stage].by_group.get(labels, EMPTY)).n
    }
    return Stages(
        labels=labels,
        window=_widest(each.window for each in found.values()),
        e2e=e2e,
        ttft=found["ttft"].by_group.get(labels, EMPTY),
        stages=[_share(stage, part, e2e, halves=halves) for stage, part in measured.items()],
        missing=tuple(
            stage
            for stage in Stage
            if stage not in measured and (halves or stage is not Stage.KV_TRANSFER)
        ),
        flow=flow,
    )


def _share(stage: Stage, part: Distribution, e2e: Distribution, *, halves: bool) -> StageShare:
    mean_s = part.mean_s
    if halves and stage is not Stage.NETWORK and part.sum_s is not None and e2e.n:
        mean_s = part.sum_s / e2e.n
    within = stage is not Stage.NETWORK  # the network lies outside the server's E2E
    share = mean_s / e2e.mean_s if within and mean_s is not None and e2e.mean_s else None
    return StageShare(stage=stage, distribution=part, mean_s=mean_s, share=share)


def _widest(windows: Iterable[Window]) -> Window:
    every = list(windows)
    return Window(
        since_s=min(each.since_s for each in every), until_s=max(each.until_s for each in every)
    )


_NO_FLOW = Flow(started=None, finished=None, failed=0, cancelled=0, rejected=0)
_COUNTED = ("requests_started", "requests_finished")
_ENDED = ("requests_failed", "requests_cancelled", "requests_rejected")


def _flows(snapshot: Snapshot, selection: Selection) -> dict[Labels, Flow]:
    """Requests in and out. Only an engine's page counts starts: also where spans were asked for."""
    anyhow = replace(selection, where=tuple(p for p in selection.where if p[0] != "source"))
    counted = {name: _increase(snapshot, name, anyhow) for name in _COUNTED}
    ended = {name: _increase(snapshot, name, selection) for name in _ENDED}
    seen = set[Labels]().union(*counted.values(), *ended.values())
    return {
        labels: Flow(
            started=counted["requests_started"].get(labels),
            finished=counted["requests_finished"].get(labels),
            failed=ended["requests_failed"].get(labels, 0),
            cancelled=ended["requests_cancelled"].get(labels, 0),
            rejected=ended["requests_rejected"].get(labels, 0),
        )
        for labels in seen
    }


def _increase(snapshot: Snapshot, metric: str, selection: Selection) -> dict[Labels, int]:
    found: Sequence[tuple[Labels, float]] = [
        (each.labels, sum(point.value for point in each.points))
        for each in numbers(snapshot, metric, selection)
    ]
    return {labels: round(value) for labels, value in found}
