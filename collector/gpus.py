"""GPUs over a window: what each is, does and did, whom it serves, and what held it down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.gpu_moments import UP, Watch, moments
from collector.gpu_pools import pools, replicas
from collector.gpu_tiles import Columns, Level, Tiles, grown, heard, newest, telling, tiles, uuids
from collector.query import Window
from collector.snapshot import Snapshot
from domain.gpu import Gpu, GpuMoment, GpuReplica, Gpus, Node
from domain.labels import Labels, matches, project, value_of
from domain.straggler import GroupMember, Straggler, stragglers

__all__ = ["gpus"]

_NOW_S = 120
_FRESH_S = 60
_SERVES = ("service", "replica", "role", "pool")
_LEVELS = (
    *("gpu_index", "gpu_busy", "gpu_sm_active", "gpu_tensor_active"),
    *("gpu_dram_bandwidth", "gpu_memory_total", "gpu_memory_used", "gpu_power", "gpu_power_limit"),
    *("gpu_temperature", "gpu_sm_clock", "gpu_pcie_width", "gpu_nvlinks_active"),
    *("gpu_recovery_action", "gpu_row_remap_failure", "gpu_ecc_uncorrected"),
)
_EXPECTED = (
    *("gpu_busy", "gpu_sm_active", "gpu_tensor_active", "gpu_dram_bandwidth"),
    *("gpu_memory_used", "gpu_power"),
)
_EXPECTED_OF_INSTANCE = ("gpu_sm_active", "gpu_tensor_active", "gpu_memory_used")


@dataclass(frozen=True, slots=True)
class _Told:
    """What is known of all GPUs, by UUID."""

    infos: Mapping[str, Labels]
    serves: Mapping[str, tuple[Labels, ...]]
    now: Mapping[str, Mapping[str, Level]]
    reasons: Mapping[str, str]
    held_s: Mapping[str, Mapping[str, float]]
    observed_s: Mapping[str, float]
    energy_j: Mapping[str, float]
    xids: Mapping[str, Mapping[str, int]]
    moments: Mapping[str, Sequence[GpuMoment]]


def gpus(
    snapshot: Snapshot, window: Window, *, where: Labels = (), step_s: int | None = None
) -> Gpus:
    """All that were heard of in the window. `where` asks for the GPU's labels or whom it serves."""
    if not _any_asked_for(snapshot, where):
        nodes = [each for each in _nodes(snapshot, window) if _node_asked_for(each, where)]
        return Gpus(since_s=window.since_s, until_s=window.until_s, nodes=nodes)
    every = _every(_told(snapshot, window, step_s))
    found = {uuid: gpu for uuid, gpu in every.items() if _asked_for(gpu, where)}
    teams = replicas(snapshot, found, until_s=window.until_s)
    off = _stragglers(teams, found)
    return Gpus(
        since_s=window.since_s,
        until_s=window.until_s,
        gpus=sorted((replace(g, straggles=off.get(g.uuid)) for g in found.values()), key=_order),
        replicas=teams,
        pools=pools(snapshot, teams, every, window),
        nodes=[each for each in _nodes(snapshot, window) if _node_asked_for(each, where)],
    )


def _every(known: _Told) -> dict[str, Gpu]:
    return {uuid: _gpu(uuid, known) for uuid in sorted({*known.infos, *known.now})}


def _told(snapshot: Snapshot, window: Window, step_s: int | None) -> _Told:
    by_id = snapshot.labels.by_id
    # why only what grew: of 128 GPUs most rows say that nothing held them
    throttle = tiles(snapshot, "gpu_throttle", window, ("sum",), step_s=step_s, only="sum > 0")
    columns = None if step_s is None else Columns(window, step_s)
    watch = Watch(snapshot, tiles(snapshot, "gpu_up", window, UP, step_s=step_s), window)
    infos = {
        value_of(by_id[number], "gpu_uuid"): by_id[number]
        for number, _ in sorted(heard(snapshot, "gpu_info", window).items(), key=_when)
    }
    return _Told(
        infos=infos,
        serves=_serves(snapshot, window),
        now=_now(snapshot, window),
        reasons=_reasons(snapshot, window, "gpu_down", "gpu_uuid"),
        held_s=_by_reason(snapshot, _held_s(snapshot, throttle, window)),
        observed_s=watch.observed_s(),
        energy_j=_energy(snapshot, window),
        xids=_counts(_by_reason(snapshot, grown(snapshot, "gpu_xid_errors", window))),
        moments={} if columns is None else moments(snapshot, watch, columns, throttle),
    )


def _when(entry: tuple[int, int]) -> int:
    return entry[1]


def _gpu(uuid: str, told: _Told) -> Gpu:
    own, now = told.infos.get(uuid, ()), told.now.get(uuid, {})
    parent = value_of(own, "gpu_parent")
    # an instance says nothing of itself once it is gone, whatever its board says
    up = _up(told.now.get(parent, {}).get("gpu_up") if parent and now else now.get("gpu_up"))
    levels = _current(now, told.now.get(parent, {}), up=up)
    energy_j, held_s = told.energy_j.get(uuid), told.held_s.get(uuid)
    return Gpu(
        uuid=uuid,
        name=value_of(own, "gpu_name"),
        node=value_of(own, "node"),
        parent=parent,
        up=up,
        reason=told.reasons.get(uuid, "") if up is False else "",
        now=levels,
        observed_s=told.observed_s.get(uuid, 0.0),
        held_s=held_s,
        energy_j=energy_j,
        xids=told.xids.get(uuid, {}),
        serves=told.serves.get(uuid, ()),
        moments=told.moments.get(uuid, ()),
        missing=_missing(levels, up=up, part=bool(parent), held=held_s, energy_j=energy_j),
    )


def _up(level: Level | None) -> bool | None:
    return None if level is None else level.value >= 1


def _current(
    now: Mapping[str, Level], parent: Mapping[str, Level], *, up: bool | None
) -> dict[str, float]:
    """What is still said: nothing but its place of a GPU that does not answer, nothing old."""
    if up is not True:
        return {name: level.value for name, level in now.items() if name == "gpu_index"}
    heard_s = (now.get("gpu_up") or parent["gpu_up"]).at_s
    return {
        name: level.value
        for name, level in now.items()
        if name != "gpu_up" and heard_s - level.at_s <= _FRESH_S
    }


def _missing(
    now: Mapping[str, float],
    *,
    up: bool | None,
    part: bool,
    held: Mapping[str, float] | None,
    energy_j: float | None,
) -> tuple[str, ...]:
    """The signals that a GPU which answers does not give; of one that does not, that it does not."""
    if up is not True:
        return ("gpu_up",) if up is None else ()
    found = [name for name in (_EXPECTED_OF_INSTANCE if part else _EXPECTED) if name not in now]
    if not part:
        found += ["gpu_throttle"] if held is None else []
        found += ["gpu_energy"] if energy_j is None else []
    return tuple(found)


def _now(snapshot: Snapshot, window: Window) -> dict[str, dict[str, Level]]:
    of = uuids(snapshot)
    found: defaultdict[str, dict[str, Level]] = defaultdict(dict)
    levels_of = newest(snapshot, ("gpu_up",), _lately(window))
    levels_of |= newest(snapshot, _LEVELS, _lately(window, _FRESH_S))
    for name, levels in levels_of.items():
        for number, level in levels.items():
            uuid = of.get(number, "")
            known = found[uuid].get(name)
            if uuid and (known is None or known.at_s <= level.at_s):
                found[uuid][name] = level
    found.pop("", None)
    return found


def _lately(window: Window, length_s: int = _NOW_S) -> Window:
    return replace(window, since_s=max(window.until_s - length_s, window.since_s))


def _reasons(snapshot: Snapshot, window: Window, name: str, whose: str) -> dict[str, str]:
    """The newest reason by GPU or node."""
    told = newest(snapshot, (name,), _lately(window))[name]
    by_id = snapshot.labels.by_id
    return {
        value_of(by_id[number], whose): value_of(by_id[number], "reason")
        for number, _ in sorted(told.items(), key=lambda each: each[1].at_s)
    }


def _nodes(snapshot: Snapshot, window: Window) -> list[Node]:
    by_id = snapshot.labels.by_id
    told = newest(snapshot, ("gpu_driver_up",), _lately(window))["gpu_driver_up"]
    up = {
        value_of(by_id[number], "node"): level.value
        for number, level in sorted(told.items(), key=lambda each: each[1].at_s)
    }
    why = _reasons(snapshot, window, "gpu_driver_down", "node")
    return [Node(name=name, reason=why.get(name, "")) for name in sorted(up) if up[name] < 1]


def _held_s(snapshot: Snapshot, throttle: Tiles, window: Window) -> dict[int, float]:
    """By series; 0 where it was told and did not grow."""
    found = dict.fromkeys(telling(snapshot, "gpu_throttle", window), 0.0)
    for number, seconds in zip(throttle.series.tolist(), throttle.values[0].tolist(), strict=True):
        found[number] = found.get(number, 0.0) + seconds
    return found


def _by_reason(snapshot: Snapshot, growth: Mapping[int, float]) -> dict[str, dict[str, float]]:
    """What each series of a counter grew by, by GPU and reason."""
    by_id = snapshot.labels.by_id
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for number, value in growth.items():
        own = dict(by_id[number])
        by, reason = found[own.get("gpu_uuid", "")], own.get("reason", "")
        by[reason] = by.get(reason, 0.0) + value
    return found


def _counts(found: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, int]]:
    return {
        uuid: {reason: round(value) for reason, value in by.items() if round(value)}
        for uuid, by in found.items()
    }


def _energy(snapshot: Snapshot, window: Window) -> dict[str, float]:
    return {
        uuid: sum(by.values())
        for uuid, by in _by_reason(snapshot, grown(snapshot, "gpu_energy", window)).items()
    }


def _serves(snapshot: Snapshot, window: Window) -> dict[str, tuple[Labels, ...]]:
    """Whom each GPU serves, as last told: a replica that moved away is not told any more."""
    by_id = snapshot.labels.by_id
    told: defaultdict[str, dict[Labels, int]] = defaultdict(dict)
    for number, at_s in heard(snapshot, "gpu_serves", window).items():
        own = project(by_id[number], _SERVES)
        before = told[value_of(by_id[number], "gpu_uuid")]
        before[own] = max(before.get(own, 0), at_s)
    return {
        uuid: tuple(sorted(own for own, at_s in by.items() if max(by.values()) - at_s <= _NOW_S))
        for uuid, by in told.items()
    }


def _stragglers(
    teams: Iterable[GpuReplica], found: Mapping[str, Gpu]
) -> dict[str, tuple[Straggler, ...]]:
    """By GPU, against the others of its replica; absent where it has no others that tell."""
    off: dict[str, tuple[Straggler, ...]] = {}
    for team in teams:
        group = {
            uuid: _member(found[uuid])
            for uuid in team.gpus
            if found[uuid].up and not found[uuid].parent
        }
        if len(group) < 2:
            continue
        told = stragglers(group)
        for uuid in group:
            mine = tuple(each for each in told if each.gpu_uuid == uuid)
            off[uuid] = (*off.get(uuid, ()), *mine)
    return off


def _member(gpu: Gpu) -> GroupMember:
    return GroupMember(
        sm_clock_hz=gpu.now.get("gpu_sm_clock"),
        temperature_c=gpu.now.get("gpu_temperature"),
        pcie_lanes=gpu.now.get("gpu_pcie_width"),
        nvlinks_active=gpu.now.get("gpu_nvlinks_active"),
    )


def _asked_for(gpu: Gpu, where: Labels) -> bool:
    own = (("gpu_uuid", gpu.uuid), ("gpu_name", gpu.name), ("node", gpu.node))
    told = [(*own, *labels) for labels in gpu.serves] or [own]
    return any(matches(labels, where) for labels in told)


def _any_asked_for(snapshot: Snapshot, where: Labels) -> bool:
    """Whether some GPU may be; most services have none, and need not read what all GPUs told."""
    labels = snapshot.labels
    return all(
        any(value_of(labels.by_id[each], "gpu_uuid") for each in labels.matching((pair,)))
        for pair in where
        if pair[1]
    )


def _node_asked_for(node: Node, where: Labels) -> bool:
    return matches((("node", node.name),), where)


def _order(gpu: Gpu) -> tuple[int, str, int, str, str]:
    """What does not answer first; an instance stands with the boards of its node, after them."""
    rank = 2 if gpu.up else 1 if gpu.up is None else 0
    place = gpu.index if gpu.index is not None else 1_000_000
    return rank, gpu.node, place, gpu.parent, gpu.uuid
