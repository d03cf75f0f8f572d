"""Where a group's requests spend their time: stage by stage, with what nobody measured named.

Means of a plain engine's stages are over the requests that have the stage. Halves of a
disaggregated pair are measured apart (two queues per request), so there a stage's mean is its sum
over the number of whole requests; in both cases the server's stages sum to the mean E2E.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from collector.conditions import newest
from collector.flows import NO_FLOW, flows
from collector.query import Flow, Selection, Stages, StageShare, Unmeasured, Window
from collector.snapshot import Snapshot
from collector.tile_rows import gather, plan
from domain.distribution import EMPTY, Distribution
from domain.labels import Labels, value_of
from domain.request import Stage

__all__ = ["stages"]

_HALVES = frozenset(("prefill", "decode"))
_RECENT_S = 300
_TELLING = frozenset(("span", "client"))
_NEVER_ON_PAGES = frozenset((Stage.OVERHEAD, Stage.KV_TRANSFER))


@dataclass(frozen=True, slots=True)
class _Measured:
    """One latency over the whole window, by group; in which groups halves measured it, and who did."""

    by_group: Mapping[Labels, Distribution]
    window: Window
    halves: frozenset[Labels]
    sources: Mapping[Labels, frozenset[str]]


def stages(snapshot: Snapshot, selection: Selection) -> list[Stages]:
    """One breakdown per group."""
    whole = replace(selection, step_s=None)
    found = {
        metric: _measured(snapshot, metric, whole) for metric in ("e2e", "ttft", *map(str, Stage))
    }
    sources = _sources(found.values())
    counted = (
        flows(snapshot, whole, sources) if selection.counted else dict.fromkeys(sources, NO_FLOW)
    )
    halves = frozenset[Labels]().union(*(each.halves for each in found.values()))
    silent = _not_reported(snapshot, whole)
    return [
        _breakdown(
            found,
            labels,
            counted.get(labels, NO_FLOW),
            halves=labels in halves,
            sources=sources.get(labels, frozenset()),
            silent=silent.get(labels, frozenset()),
        )
        for labels in sorted(counted)
    ]


def _measured(snapshot: Snapshot, metric: str, selection: Selection) -> _Measured:
    asked = plan(snapshot, metric, selection, crowded=True)
    grouping = snapshot.labels.grouping(selection.where, selection.by)
    names, group_of = grouping.names, grouping.group_of
    gathered = gather(snapshot, asked, group_of)
    seen = gathered.seen
    found = {names[g]: tiles.distribution() for (g, _), tiles in gathered.tiles.items()}
    sources: dict[Labels, frozenset[str]] = {}
    for number in seen:
        labels = names[group_of[number]]
        source = value_of(asked.series[number], "source")
        if source not in sources.setdefault(labels, frozenset()):
            sources[labels] |= {source}
    halves = {
        names[group_of[number]]
        for number in seen
        if value_of(asked.series[number], "role") in _HALVES
    }
    window = Window(since_s=asked.steps[0].since_s, until_s=asked.steps[-1].until_s)
    return _Measured(found, window, frozenset(halves & found.keys()), sources)


def _sources(measured: Iterable[_Measured]) -> dict[Labels, frozenset[str]]:
    """Who measured anything of each group."""
    together: dict[Labels, frozenset[str]] = {}
    for each in measured:
        for labels in each.by_group:
            together[labels] = together.get(labels, frozenset()) | each.sources.get(
                labels, frozenset()
            )
    return together


def _not_reported(snapshot: Snapshot, selection: Selection) -> dict[Labels, frozenset[str]]:
    """By group the metrics that its pages say they do not have, as of the window's end."""
    end_s = selection.window.until_s
    since_s = max(selection.window.since_s, end_s - _RECENT_S)
    grouping = snapshot.labels.grouping(selection.where, selection.by)
    found: dict[Labels, frozenset[str]] = {}
    for number, (_, last) in newest(snapshot, "not_reported", since_s, end_s).items():
        if last >= 1 and number in grouping.group_of:
            labels = grouping.names[grouping.group_of[number]]
            reason = value_of(snapshot.labels.by_id[number], "reason")
            found[labels] = found.get(labels, frozenset()) | {reason}
    return found


def _why(stage: Stage, sources: frozenset[str], silent: frozenset[str]) -> Unmeasured:
    """Why nobody measured a stage of a group."""
    if stage is Stage.NETWORK:
        return Unmeasured.NOT_TOLD if "client" in sources else Unmeasured.NO_CLIENT
    if stage in silent:
        return Unmeasured.NOT_REPORTED
    if stage in _NEVER_ON_PAGES and not sources & _TELLING:
        return Unmeasured.NO_SPANS
    return Unmeasured.NOT_TOLD


def _breakdown(
    found: Mapping[str, _Measured],
    labels: Labels,
    flow: Flow,
    *,
    halves: bool,
    sources: frozenset[str],
    silent: frozenset[str],
) -> Stages:
    e2e = found["e2e"].by_group.get(labels, EMPTY)
    measured = {
        stage: distribution
        for stage in Stage
        if (distribution := found[stage].by_group.get(labels, EMPTY)).n
    }
    missing = tuple(
        stage
        for stage in Stage
        if stage not in measured and (halves or stage is not Stage.KV_TRANSFER)
    )
    return Stages(
        labels=labels,
        window=_widest(each.window for each in found.values()),
        e2e=e2e,
        ttft=found["ttft"].by_group.get(labels, EMPTY),
        stages=[_share(stage, part, e2e, halves=halves) for stage, part in measured.items()],
        missing=missing,
        flow=flow,
        reasons={stage: _why(stage, sources, silent) for stage in missing},
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
