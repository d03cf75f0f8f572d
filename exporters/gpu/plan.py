"""What the sidecar is to do, as plain values: settings that were checked, without what checks them.

The sidecar's own process holds only these; the library that checks a configuration is a third of
the memory it may use.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from domain.labels import Labels
from exporters.delivery.way import Way

__all__ = ["Plan", "Replica"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica of an engine, and its GPUs by name or by the processes on them."""

    series: Labels
    gpus: tuple[str, ...] = ()
    process: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`exporters.gpu.settings.GpuSettings` says what each of these means."""

    node: str | None
    interval_s: float
    deadline_s: float
    replace_after_s: float
    unhealthy_after_s: float
    release_s: float
    activity: str
    dcgm_port: int
    replicas: tuple[Replica, ...]
    kernel_log: str
    pod_resources: str
    way: Way
    push_interval_s: float
    listen_host: str
    listen_port: int | None

    @staticmethod
    def from_plain(told: dict[str, Any]) -> Plan:
        """From what `dataclasses.asdict` and JSON made of one."""
        replicas = tuple(
            Replica(
                series=tuple((name, value) for name, value in each["series"]),
                gpus=tuple(each["gpus"]),
                process=each["process"],
            )
            for each in told["replicas"]
        )
        own = {each.name: told[each.name] for each in fields(Plan)}
        return Plan(**{**own, "replicas": replicas, "way": Way.from_plain(told["way"])})
