"""The exporter's own `/metrics`: written when readings come, put together when somebody asks.

A scrape joins what is ready and waits for no driver. Measurements carry the GPU's UUID and nothing
else that can change; what a GPU is, whom it serves and which pod has it are info series to join.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from domain.metric import METRICS, Kind
from exporters.gpu.fleet import Fleet
from exporters.gpu.gpu import Gpu, parts_of

__all__ = ["OWN", "Page"]

_REASON_IS: Final = {
    "gpu_throttle": "cause",
    "gpu_throttled": "cause",
    "gpu_xid_errors": "xid",
    "gpu_xid_last": "xid",
    "gpu_events": "event",
    "gpu_ecc_errors": "type",
    "gpu_rows_remapped": "type",
    "gpu_nvlink_errors": "kind",
    "gpu_energy": "source",
    "gpu_temperature_limit": "limit",
    "gpu_margin_limit": "limit",
    "gpu_readings_rejected": "field",
}
"""What `reason` is called on the page, where it has a better name."""

OWN: Final = {
    "stagewatch_exporter_spool_bytes": ("gauge", "Exports that wait, by where."),
    "stagewatch_gpu_last_read_timestamp_seconds": ("gauge", "When this GPU was last read."),
    "stagewatch_gpu_read_duration_seconds": ("gauge", "How long the last reading took."),
    "stagewatch_gpu_field_unavailable": ("gauge", "1 for what this GPU does not tell, and why."),
    "stagewatch_gpu_activity_supported": (
        "gauge",
        "1 while SM, tensor and DRAM activity are read (GPM); why not is in field_unavailable.",
    ),
    "stagewatch_gpu_readers": ("gauge", "Reading processes: at work, and abandoned in the driver."),
    "stagewatch_gpu_pod_devices": ("gauge", "Devices that the kubelet gave to pods, by outcome."),
    "stagewatch_gpu_pod_mapping_timestamp_seconds": (
        "gauge",
        "When the kubelet last said which pod has which GPU.",
    ),
}
_HEADERS: Final[Mapping[str, str]] = {
    **{
        metric.full_name: f"# HELP {metric.full_name} {metric.help}\n# TYPE {metric.full_name}"
        f" {'counter' if metric.kind is Kind.COUNTER else 'gauge'}\n"
        for metric in METRICS.values()
        if not metric.of_requests
    },
    **{name: f"# HELP {name} {text}\n# TYPE {name} {kind}\n" for name, (kind, text) in OWN.items()},
}

Sample = tuple[str, str, float]  # family, labels as they are written, value
Chunks = Mapping[str, str]


class Page:
    """Text by GPU and family, kept until the next reading of that GPU."""

    def __init__(self) -> None:
        self.beside: Callable[[], Iterable[tuple[str, Mapping[str, str], float]]] = tuple
        """Samples that belong to no GPU: readers, pods, whom GPUs serve."""
        self._of_gpu: dict[str, Chunks] = {}

    def update(self, gpu: Gpu) -> None:
        """A GPU told something; write it down. Called with the fleet's lock held."""
        self._of_gpu[gpu.id] = _chunks([*_counted(gpu), *(_measured(gpu) if gpu.told else ())])

    def text(self, fleet: Fleet, now_s: float) -> str:
        """The page of now; what is too old is not on it."""
        fleet.withdraw(now_s)
        with fleet.lock:
            gpus = sorted(fleet.gpus.values(), key=lambda gpu: (gpu.index, gpu.id))
            states = [(gpu, fleet.state(gpu, now_s)) for gpu in gpus]
            parts = [self._of_gpu[gpu.id] for gpu, _ in states if gpu.id in self._of_gpu]
            parts.append(_chunks([*_states(fleet, states), *_written(self.beside())]))
        lines: list[str] = []
        for family, header in _HEADERS.items():
            found = [part[family] for part in parts if family in part]
            if found:
                lines += [header, *found]
        return "".join(lines)


def _written(told: Iterable[tuple[str, Mapping[str, str], float]]) -> Iterable[Sample]:
    return ((family, _labels(**labels), value) for family, labels, value in told)


def _states(fleet: Fleet, states: Iterable[tuple[Gpu, str]]) -> Iterable[Sample]:
    name = METRICS["gpu_driver_up"].full_name
    yield name, "", 0.0 if fleet.driver_down else 1.0
    if fleet.driver_down:
        why = _labels(reason=fleet.driver_down)
        yield METRICS["gpu_driver_down"].full_name, why, 1.0
    for reason, count in fleet.replaced.items():
        yield METRICS["gpu_worker_restarts"].full_name, _labels(reason=reason), float(count)
    for gpu, reason in states:
        own = _labels(gpu_uuid=gpu.id)
        yield METRICS["gpu_up"].full_name, own, 0.0 if reason else 1.0
        if reason:
            told = {"gpu_uuid": gpu.id, "reason": reason}
            if reason == "hung":
                told["call"] = gpu.hangs_in
            yield METRICS["gpu_down"].full_name, _labels(**told), 1.0
        yield METRICS["gpu_info"].full_name, _info(fleet, gpu), 1.0
        yield from _instance_infos(gpu)


def _info(fleet: Fleet, gpu: Gpu) -> str:
    told = {key: value for key, value in gpu.labels.items() if key not in ("name", "events")}
    name = gpu.labels.get("name", "")
    index = str(gpu.index)
    return _labels(
        gpu_uuid=gpu.id, gpu_name=name, index=index, driver_version=fleet.driver_version, **told
    )


def _instance_infos(gpu: Gpu) -> Iterable[Sample]:
    for instance in (gpu.told or {}).get("instances", ()):
        labels = {
            "gpu_uuid": instance["uuid"],
            "gpu_parent": gpu.id,
            "gpu_name": instance["name"],
            "gi": str(instance["gi"]),
            "ci": str(instance["ci"]),
        }
        yield METRICS["gpu_info"].full_name, _labels(**labels), 1.0


def _counted(gpu: Gpu) -> Iterable[Sample]:
    """What stays when the GPU goes: what was counted here, XIDs above all."""
    for word, count in gpu.events.items():
        kind, _, name = word.partition("/")
        metric = "gpu_xid_errors" if kind == "xid" else "gpu_events"
        yield _sample(metric, gpu.id, name, float(count))
        if kind == "xid":
            yield _sample("gpu_xid_last", gpu.id, name, gpu.event_at_ns[word] / 1e9)
    for (uuid, field), count in gpu.rejected.items():
        yield _sample("gpu_readings_rejected", uuid, field, float(count))


def _measured(gpu: Gpu) -> Iterable[Sample]:
    own = _labels(gpu_uuid=gpu.id)
    yield "stagewatch_gpu_last_read_timestamp_seconds", own, gpu.at_ns / 1e9
    yield "stagewatch_gpu_read_duration_seconds", own, gpu.took_s
    for uuid, part in parts_of(gpu.told or {}, gpu.id):
        yield from _part(gpu, uuid, part)


def _part(gpu: Gpu, uuid: str, part: Mapping[str, Any]) -> Iterable[Sample]:
    for key, value in part["levels"].items():
        name, _, reason = key.partition("/")
        yield _sample(name, uuid, reason, value)
    for key in part["totals"]:
        name, _, reason = key.partition("/")
        yield _sample(name, uuid, reason, gpu.counts[uuid, key].shown)
    for field, reason in part["absent"].items():
        labels = _labels(gpu_uuid=uuid, field=field, reason=reason)
        yield "stagewatch_gpu_field_unavailable", labels, 1.0
    if uuid == gpu.id and not part["instances"]:
        supported = "gpu_activity" not in part["absent"]
        yield "stagewatch_gpu_activity_supported", _labels(gpu_uuid=uuid), float(supported)


def _sample(metric: str, uuid: str, reason: str, value: float) -> Sample:
    return METRICS[metric].full_name, _series(metric, uuid, reason), value


@lru_cache(maxsize=16_384)
def _series(metric: str, uuid: str, reason: str) -> str:
    """The labels of one series, which stay the same for as long as it is there."""
    return _labels(gpu_uuid=uuid, **{_REASON_IS.get(metric, "reason"): reason})


def _chunks(samples: Iterable[Sample]) -> Chunks:
    by_family: defaultdict[str, list[str]] = defaultdict(list)
    for family, labels, value in samples:
        by_family[family].append(f"{family}{labels} {value!r}\n")
    return {family: "".join(lines) for family, lines in by_family.items()}


_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def _labels(**labels: str) -> str:
    inside = ",".join(
        f'{key}="{value.translate(_ESCAPED)}"' for key, value in labels.items() if value
    )
    return f"{{{inside}}}" if inside else ""
