"""Replicas whose GPUs are known, and their pools: what binds, what a token costs, who is wedged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from collector.gpu_signs import Progress, gpus_of, progress, resting_w, wedge_of
from collector.gpu_tiles import Sums, added_up, heard, together
from collector.query import Window
from collector.snapshot import Snapshot
from domain.energy import EnergyWindow, energy_per_token, fit_energy
from domain.gpu import Gpu, GpuPool, GpuReplica, PoolEnergy
from domain.headroom import Headroom, headroom
from domain.labels import SOURCES, Labels, project, value_of

__all__ = ["pools", "replicas"]

_POOL = ("service", "pool", "role")
_PLACE = ("service", "replica")
_RESOURCES = ("tensor_active", "dram_bandwidth", "kv_cache_usage", "power")
_TOKENS = ("prompt_tokens", "generation_tokens")
_PRICED = {"prefill": _TOKENS[:1], "decode": _TOKENS[1:]}
_RANK = {source: rank for rank, source in enumerate(SOURCES)}
_SHORTEST_S = 60
_FEWEST = 3
"""Minutes, below which there is no P95 to speak of."""

Told = tuple[Sums, int]


def replicas(snapshot: Snapshot, found: Mapping[str, Gpu], *, until_s: int) -> list[GpuReplica]:
    """One for each replica that runs on a GPU which was asked for."""
    teams: defaultdict[Labels, list[str]] = defaultdict(list)
    for uuid, gpu in found.items():
        for own in gpu.serves:
            teams[own].append(uuid)
    told, mapped = progress(snapshot, until_s), gpus_of(snapshot, until_s)
    every: list[GpuReplica] = []
    for own, uuids in sorted(teams.items()):
        place = value_of(own, "service"), value_of(own, "replica")
        whole = sorted({*uuids, *mapped.get(place, ())})
        verdict = wedge_of(snapshot, whole, told.get(place, Progress()), at_s=until_s)
        every.append(GpuReplica(labels=own, gpus=tuple(sorted(uuids)), wedge=verdict))
    return every


def pools(
    snapshot: Snapshot, teams: Sequence[GpuReplica], every: Mapping[str, Gpu], window: Window
) -> list[GpuPool]:
    """One for each service, pool and role among the replicas."""
    by_pool: defaultdict[Labels, list[GpuReplica]] = defaultdict(list)
    for team in teams:
        by_pool[project(team.labels, _POOL)].append(team)
    series = _Series(snapshot)
    return [
        _Pool(snapshot, series, window, own, members, every).answer()
        for own, members in sorted(by_pool.items())
    ]


class _Series:
    """The numbers of the series of GPUs, and of the engines that run on them."""

    def __init__(self, snapshot: Snapshot) -> None:
        told = snapshot.labels.grouping((), ("gpu_uuid", *_PLACE))
        self._members = told.members
        self._of_gpu: defaultdict[str, list[int]] = defaultdict(list)
        self._of_engine: dict[tuple[str, str], int] = {}
        for place, own in enumerate(told.names):
            if uuid := value_of(own, "gpu_uuid"):
                self._of_gpu[uuid].append(place)
            elif replica := value_of(own, "replica"):
                self._of_engine[value_of(own, "service"), replica] = place

    def of_gpus(self, uuids: Collection[str]) -> list[int]:
        return [n for uuid in uuids for place in self._of_gpu[uuid] for n in self._members[place]]

    def of_engine(self, place: tuple[str, str]) -> Sequence[int]:
        known = self._of_engine.get(place)
        return () if known is None else self._members[known]


@dataclass(frozen=True, slots=True)
class _Pool:
    """One pool and what is asked of it; each signal is read where it is needed."""

    snapshot: Snapshot
    series: _Series
    window: Window
    labels: Labels
    members: Sequence[GpuReplica]
    every: Mapping[str, Gpu]

    @property
    def uuids(self) -> list[str]:
        return sorted({uuid for each in self.members for uuid in each.gpus})

    @property
    def up(self) -> list[str]:
        return [uuid for uuid in self.uuids if self.every[uuid].up]

    def answer(self) -> GpuPool:
        """All of it."""
        used = self._used()
        energy, lacking = self._energy()
        unknown = [name for name in _RESOURCES if used.get(name) is None]
        bound = self._headroom(used)
        return GpuPool(
            labels=self.labels,
            replicas=len(self.members),
            gpus=len(self.up),
            headroom=bound,
            energy=energy,
            missing=(*unknown, *lacking),
        )

    def _headroom(self, used: Mapping[str, float | None]) -> Headroom | None:
        role = value_of(self.labels, "role")
        return headroom(used, gpus=len(self.up), role=role) if self.up else None

    def _used(self) -> dict[str, float | None]:
        """The P95 of each resource over minutes: of the pool's mean, since work can be moved in it."""
        power, limit = (self._gpus(name) for name in ("gpu_power", "gpu_power_limit"))
        drawn = [
            power[tile][1] / limit[tile][1]
            for tile in power.keys() & limit.keys()
            if power[tile][0] == limit[tile][0] and limit[tile][1] > 0
        ]
        return {
            "tensor_active": _p95(_means(self._gpus("gpu_tensor_active"))),
            "dram_bandwidth": _p95(_means(self._gpus("gpu_dram_bandwidth"))),
            "kv_cache_usage": _p95(_means(self._engines("kv_cache_usage"))),
            "power": _p95(drawn),
        }

    def _energy(self) -> tuple[PoolEnergy | None, list[str]]:
        """Joules and tokens of the tiles in which all told both; else what there was not."""
        if lacking := self._unattributed():
            return None, [lacking]
        priced = _PRICED.get(value_of(self.labels, "role"), _TOKENS)
        told = {"gpu_energy": self._told_by_gpus("gpu_energy")}
        told |= {name: self._told_by_engines(name) for name in priced}
        if unknown := [name for name, each in told.items() if each is None]:
            return None, unknown
        known = {name: each for name, each in told.items() if each is not None}
        shared = together(*known.values())
        if not shared:
            return None, ["gpu_energy and tokens at one time"]
        windows = [
            _window(tile, {n: sums[tile][2] for n, (sums, _) in known.items()}) for tile in shared
        ]
        return self._priced(windows, priced)

    def _priced(
        self, windows: Sequence[EnergyWindow], priced: Sequence[str]
    ) -> tuple[PoolEnergy, list[str]]:
        joules = sum(each.joules for each in windows)
        seen_s = sum(each.observed_s for each in windows)
        if len(priced) > 1:
            fit = fit_energy([each for each in windows if each.observed_s >= _SHORTEST_S])
            lacking = (
                [] if fit else ["minutes that differ enough to price prompts and output apart"]
            )
            return PoolEnergy(joules=joules, observed_s=seen_s, fit=fit), lacking
        idle_w = self._idle_w()
        lacking = ["gpu_power at rest"] if idle_w is None else []
        prompts = priced[0] == "prompt_tokens"
        tokens = sum(each.prompt_tokens if prompts else each.output_tokens for each in windows)
        price = energy_per_token(joules, tokens, observed_s=seen_s, idle_w=idle_w)
        return PoolEnergy(
            joules=joules,
            observed_s=seen_s,
            prompt=price if prompts else None,
            output=None if prompts else price,
        ), lacking

    def _idle_w(self) -> float | None:
        """What its GPUs draw together in minutes without work; None unless each had some."""
        at_rest = resting_w(self.snapshot, self.uuids, self.window)
        return sum(at_rest.values()) if len(at_rest) == len(self.uuids) else None

    def _unattributed(self) -> str:
        """Why energy cannot be this pool's alone; empty where it can."""
        own = {each.labels for each in self.members}
        if any(self.every[uuid].parent for uuid in self.uuids):
            return "gpu_energy of MIG instances: a board has one counter for all"
        if any(set(self.every[uuid].serves) - own for uuid in self.uuids):
            return "gpu_energy of this pool alone: a GPU serves another one too"
        return ""

    def _gpus(self, name: str) -> Sums:
        return added_up(self.snapshot, name, self.window, self.series.of_gpus(self.uuids))

    def _engines(self, name: str) -> Sums:
        told = self._telling(name)
        return added_up(self.snapshot, name, self.window, [n for each in told for n in each])

    def _told_by_gpus(self, name: str) -> Told | None:
        """Its sums, and how many must tell for them to be whole; None where one never does."""
        sums = self._gpus(name)
        return (sums, len(self.uuids)) if sums else None

    def _told_by_engines(self, name: str) -> Told | None:
        told = self._telling(name)
        if not all(told):
            return None
        series = [number for each in told for number in each]
        return added_up(self.snapshot, name, self.window, series), len(series)

    def _telling(self, name: str) -> list[list[int]]:
        """By replica, the series that told in the window, of the source that we believe first."""
        told = heard(self.snapshot, name, self.window)
        by_id = self.snapshot.labels.by_id
        found = []
        for each in self.members:
            place = value_of(each.labels, "service"), value_of(each.labels, "replica")
            own = [number for number in self.series.of_engine(place) if number in told]
            ranks = {number: _RANK.get(value_of(by_id[number], "source"), 99) for number in own}
            best = min(ranks.values(), default=0)
            found.append([number for number in own if ranks[number] == best])
        return found


def _window(tile: tuple[int, int], grown: Mapping[str, float]) -> EnergyWindow:
    return EnergyWindow(
        joules=grown["gpu_energy"],
        prompt_tokens=grown.get("prompt_tokens", 0.0),
        output_tokens=grown.get("generation_tokens", 0.0),
        observed_s=float(tile[0]),
    )


def _means(told: Sums) -> list[float]:
    return [means / count for count, means, _ in told.values()]


def _p95(values: Sequence[float]) -> float | None:
    return float(np.quantile(values, 0.95)) if len(values) >= _FEWEST else None
