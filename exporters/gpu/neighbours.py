"""What is known of GPUs beside the driver: whom they serve, and which pod has them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Final

from domain.labels import Labels, labels_of
from domain.metric import METRICS
from exporters.engine.reading import Level
from exporters.gpu import pods, replicas
from exporters.gpu.fleet import Fleet
from exporters.gpu.gpu import Gpu
from exporters.gpu.plan import Plan

__all__ = ["Neighbours"]

_LOG = logging.getLogger(__name__)
_EVERY_S: Final = 10.0
_SOON_S: Final = 1.0


class Neighbours:
    """Asked every ten seconds in a thread of its own: a kubelet that hangs delays nothing."""

    def __init__(self, plan: Plan, fleet: Fleet) -> None:
        self._plan = plan
        self._fleet = fleet
        self._serves: list[tuple[str, Labels]] = []
        self._pods: list[tuple[str, pods.Pod]] = []
        self._lost: list[pods.Pod] = []
        self._mapping: pods.Mapping | None = None
        self._told: set[str] = set()

    def run(self, stop: Event) -> None:
        while not stop.is_set():
            self.look()
            settled = bool(self._fleet.gpus)
            stop.wait(_EVERY_S if settled else _SOON_S)

    def look(self) -> None:
        """Find out anew."""
        devices = list(_devices(self._fleet))
        found, unknown = replicas.serves(self._plan.replicas, devices, replicas.command_lines)
        mapping = pods.ask_kubelet(Path(self._plan.pod_resources))
        if mapping is not None and mapping.problem == "grpc_missing":
            unknown.append(
                "a kubelet is here, but grpcio is not: install `stagewatch[kubernetes]` to learn"
                " which pod has which GPU"
            )
        if devices:  # before that, nothing is known to be missing
            for sentence in set(unknown) - self._told:
                _LOG.warning("%s", sentence)
            self._told = set(unknown)
        placed, lost = pods.located(mapping, devices) if mapping is not None else ([], [])
        self._serves, self._pods, self._lost, self._mapping = found, placed, lost, mapping

    def levels(self) -> Iterator[Level]:
        """The same as gauges for the collector."""
        for uuid, labels in self._serves:
            own = labels_of({**dict(labels), "gpu_uuid": uuid})
            yield Level(metric="gpu_serves", labels=own, value=1.0)
        for labels in sorted({_pod_labels(uuid, pod) for uuid, pod in self._pods}):
            yield Level(metric="gpu_pod_info", labels=labels, value=1.0)
        if self._mapping is not None:
            up = 0.0 if self._mapping.problem else 1.0
            yield Level(metric="gpu_pod_mapping_up", labels=(), value=up)

    def samples(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """The same for our own page, with how the mapping fares."""
        for uuid, labels in self._serves:
            yield METRICS["gpu_serves"].full_name, {"gpu_uuid": uuid, **dict(labels)}, 1.0
        for uuid, pod in self._pods:
            own = {
                "gpu_uuid": uuid,
                "namespace": pod.namespace,
                "pod": pod.pod,
                "container": pod.container,
            }
            yield METRICS["gpu_pod_info"].full_name, own, 1.0
        if self._mapping is None:
            return
        why = {"reason": self._mapping.problem}
        yield METRICS["gpu_pod_mapping_up"].full_name, why, 0.0 if why["reason"] else 1.0
        for outcome, count in (("mapped", len(self._pods)), ("unmapped", len(self._lost))):
            yield "stagewatch_gpu_pod_devices", {"outcome": outcome}, float(count)
        if self._mapping.at_s is not None:
            yield "stagewatch_gpu_pod_mapping_timestamp_seconds", {}, self._mapping.at_s


def _pod_labels(uuid: str, pod: pods.Pod) -> Labels:
    return labels_of({"gpu_uuid": uuid, "namespace": pod.namespace, "pod": pod.pod})


def _devices(fleet: Fleet) -> Iterator[replicas.Device]:
    with fleet.lock:
        for gpu in list(fleet.gpus.values()):
            yield from _of(gpu, fleet)


def _of(gpu: Gpu, fleet: Fleet) -> Iterator[replicas.Device]:
    minor = gpu.labels.get("minor", "")
    yield replicas.Device(
        uuid=gpu.id,
        index=gpu.index,
        minor=int(minor) if minor.isdecimal() else gpu.index,
        pids=fleet.pids.get(gpu.id, ()),
    )
    for instance in (gpu.told or {}).get("instances", ()):
        yield replicas.Device(
            uuid=instance["uuid"],
            parent=gpu.id,
            gi=int(instance["gi"]),
            pids=fleet.pids.get(instance["uuid"], ()),
        )
