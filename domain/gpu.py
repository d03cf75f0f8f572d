"""GPUs as a question about them is answered: what each is, does and did, and what a pool makes of them.

None is what nobody told; `missing` says in words which signal that was. Nothing is 0 for want of
a reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from domain.energy import EnergyFit, EnergyPerToken
from domain.headroom import Headroom
from domain.labels import Labels, value_of
from domain.straggler import Straggler
from domain.throttle import throttle_shares
from domain.wedge import Wedge

__all__ = ["Gpu", "GpuMoment", "GpuPool", "GpuReplica", "Gpus", "Node", "PoolEnergy", "Sight"]


class Sight(StrEnum):
    """Whether a GPU was seen at a moment."""

    UP = "up"
    DOWN = "does not answer"
    NOT_OBSERVED = "not observed"


class GpuMoment(NamedTuple):
    """One step: how much a GPU worked, and for which share of it each cause held its clocks down.

    why a tuple: a page of 128 GPUs has eight thousand.
    """

    sight: Sight
    work: float | None = None
    held: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU or MIG instance over a window.

    `up` and `now` are of its end, None and empty where nobody told lately. `held_s`: seconds of the
    `observed_s` for which each cause held the clocks down, None where that is not told.
    """

    uuid: str
    name: str = ""
    node: str = ""
    parent: str = ""
    up: bool | None = None
    reason: str = ""
    now: Mapping[str, float] = field(default_factory=dict)
    observed_s: float = 0.0
    held_s: Mapping[str, float] | None = None
    energy_j: float | None = None
    xids: Mapping[str, int] = field(default_factory=dict)
    serves: tuple[Labels, ...] = ()
    straggles: tuple[Straggler, ...] | None = None
    moments: Sequence[GpuMoment] = ()
    missing: tuple[str, ...] = ()

    @property
    def index(self) -> int | None:
        found = self.now.get("gpu_index")
        return None if found is None else round(found)

    @property
    def shares(self) -> Mapping[str, float]:
        """Of the time for which it was observed, by cause; causes overlap."""
        return throttle_shares(self.held_s or {}, self.observed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReplica:
    """One replica whose GPUs are known, and whether its engine works or only seems to."""

    labels: Labels
    gpus: tuple[str, ...]
    wedge: Wedge

    @property
    def name(self) -> str:
        return value_of(self.labels, "replica")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEnergy:
    """What tokens cost. A prefill pool prices prompt tokens, a decode pool output tokens.

    Of a pool that does both, `fit` takes the two apart where its minutes differ enough.
    `observed_s`: the time of the window in which all its GPUs and engines told both.
    """

    joules: float
    observed_s: float
    prompt: EnergyPerToken | None = None
    output: EnergyPerToken | None = None
    fit: EnergyFit | None = None

    @property
    def joules_per_prompt_token(self) -> float | None:
        if self.fit is not None:
            return self.fit.joules_per_prompt_token
        return None if self.prompt is None else self.prompt.joules

    @property
    def joules_per_output_token(self) -> float | None:
        if self.fit is not None:
            return self.fit.joules_per_output_token
        return None if self.output is None else self.output.joules


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPool:
    """The replicas of one service, pool and role; `gpus` are those that answer."""

    labels: Labels
    replicas: int
    gpus: int
    headroom: Headroom | None = None
    energy: PoolEnergy | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine whose driver does not answer, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The answer, down GPUs first, then by node and place."""

    since_s: int
    until_s: int
    gpus: Sequence[Gpu] = ()
    replicas: Sequence[GpuReplica] = ()
    pools: Sequence[GpuPool] = ()
    nodes: Sequence[Node] = ()
