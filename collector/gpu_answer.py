"""GPUs as JSON says them. Null is what nobody told; `missing` names the signals."""

from __future__ import annotations

from typing_extensions import TypedDict  # why: pydantic asks for it before Python 3.12

from collector.times import rfc3339
from domain.energy import EnergyPerToken
from domain.gpu import Gpu, GpuPool, GpuReplica, Gpus, PoolEnergy
from domain.headroom import Headroom
from domain.straggler import Straggler

__all__ = ["GpusAnswer", "gpus_answer"]


class _Throttle(TypedDict):
    """By cause. `share` is of `observed_s`, the time for which the GPU answered; causes overlap."""

    observed_s: float
    seconds: dict[str, float] | None
    share: dict[str, float] | None


class _Straggler(TypedDict):
    what: str
    value: float
    others: float


class _Gpu(TypedDict):
    """One GPU or MIG instance. `up` is null where nobody told of it lately; no reading: null."""

    gpu_uuid: str
    name: str
    node: str
    index: int | None
    parent: str
    up: bool | None
    reason: str
    throttle: _Throttle
    power_w: float | None
    power_limit_w: float | None
    energy_j: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    temperature_c: float | None
    busy: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_bandwidth: float | None
    xids: dict[str, int]
    serves: list[dict[str, str]]
    stragglers: list[_Straggler] | None
    missing: list[str]


class _Replica(TypedDict):
    """`state`: nothing, suspect, wedged, or unknown where the engine does not say."""

    labels: dict[str, str]
    gpus: list[str]
    state: str
    evidence: list[str]
    contra: list[str]
    missing: list[str]


class _Headroom(TypedDict):
    """The P95 of the fullest resource; `expected`: whether that is what a pool of its role runs out of."""

    resource: str
    used: float
    gpus_left: float
    expected: bool | None


class _Energy(TypedDict):
    """Of the `observed_s` in which all GPUs and engines of the pool told.

    `fitted`: prompts and output were priced apart by how the minutes differ; `r_squared` says how
    well. `idle_share`: what would have been used without any token.
    """

    joules: float
    observed_s: float
    joules_per_prompt_token: float | None
    joules_per_output_token: float | None
    idle_share: float | None
    fitted: bool
    r_squared: float | None


class _Pool(TypedDict):
    labels: dict[str, str]
    replicas: int
    gpus: int
    headroom: _Headroom | None
    energy: _Energy | None
    missing: list[str]


class _Node(TypedDict):
    """A machine whose driver does not answer."""

    node: str
    reason: str


GpusAnswer = TypedDict(
    "GpusAnswer",
    {
        "from": str,
        "to": str,
        "gpus": list[_Gpu],
        "replicas": list[_Replica],
        "pools": list[_Pool],
        "nodes": list[_Node],
    },
)


def gpus_answer(found: Gpus) -> GpusAnswer:
    """The whole answer, in its order: what does not answer first."""
    return {
        "from": rfc3339(found.since_s),
        "to": rfc3339(found.until_s),
        "gpus": [_gpu(each) for each in found.gpus],
        "replicas": [_replica(each) for each in found.replicas],
        "pools": [_pool(each) for each in found.pools],
        "nodes": [{"node": each.name, "reason": each.reason} for each in found.nodes],
    }


def _gpu(gpu: Gpu) -> _Gpu:
    now = gpu.now
    return {
        "gpu_uuid": gpu.uuid,
        "name": gpu.name,
        "node": gpu.node,
        "index": gpu.index,
        "parent": gpu.parent,
        "up": gpu.up,
        "reason": gpu.reason,
        "throttle": _throttle(gpu),
        "power_w": now.get("gpu_power"),
        "power_limit_w": now.get("gpu_power_limit"),
        "energy_j": gpu.energy_j,
        "memory_used_bytes": now.get("gpu_memory_used"),
        "memory_total_bytes": now.get("gpu_memory_total"),
        "temperature_c": now.get("gpu_temperature"),
        "busy": now.get("gpu_busy"),
        "sm_active": now.get("gpu_sm_active"),
        "tensor_active": now.get("gpu_tensor_active"),
        "dram_bandwidth": now.get("gpu_dram_bandwidth"),
        "xids": dict(gpu.xids),
        "serves": [dict(each) for each in gpu.serves],
        "stragglers": None if gpu.straggles is None else [_straggler(s) for s in gpu.straggles],
        "missing": list(gpu.missing),
    }


def _throttle(gpu: Gpu) -> _Throttle:
    known = gpu.held_s is not None
    return {
        "observed_s": gpu.observed_s,
        "seconds": dict(gpu.held_s or {}) if known else None,
        "share": dict(gpu.shares) if known and gpu.observed_s > 0 else None,
    }


def _straggler(one: Straggler) -> _Straggler:
    return {"what": one.what, "value": one.value, "others": one.others}


def _replica(replica: GpuReplica) -> _Replica:
    verdict = replica.wedge
    return {
        "labels": dict(replica.labels),
        "gpus": list(replica.gpus),
        "state": str(verdict.state),
        "evidence": list(verdict.evidence),
        "contra": list(verdict.contra),
        "missing": list(verdict.missing),
    }


def _pool(pool: GpuPool) -> _Pool:
    return {
        "labels": dict(pool.labels),
        "replicas": pool.replicas,
        "gpus": pool.gpus,
        "headroom": None if pool.headroom is None else _headroom(pool.headroom),
        "energy": None if pool.energy is None else _energy(pool.energy),
        "missing": list(pool.missing),
    }


def _headroom(found: Headroom) -> _Headroom:
    return {
        "resource": found.resource,
        "used": found.used,
        "gpus_left": found.gpus_left,
        "expected": found.expected,
    }


def _energy(found: PoolEnergy) -> _Energy:
    told = [each for each in (found.prompt, found.output) if each is not None]
    return {
        "joules": found.joules,
        "observed_s": found.observed_s,
        "joules_per_prompt_token": found.joules_per_prompt_token,
        "joules_per_output_token": found.joules_per_output_token,
        "idle_share": _idle_share(told),
        "fitted": found.fit is not None,
        "r_squared": None if found.fit is None else found.fit.r_squared,
    }


def _idle_share(told: list[EnergyPerToken]) -> float | None:
    return told[0].idle_share if told else None
