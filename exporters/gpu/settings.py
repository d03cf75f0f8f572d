"""The GPU exporter's settings: how often it reads, whom the GPUs serve, where readings go."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from domain.labels import MAX_LABEL_LENGTH, labels_of
from exporters.delivery.settings import DeliverySettings
from exporters.gpu.plan import Plan, Replica

__all__ = ["GpuSettings", "ReplicaSettings"]

_Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


_Pattern = Annotated[str, AfterValidator(_pattern)]


class ReplicaSettings(BaseModel):
    """One replica of an engine, and how to tell which GPUs are its."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    service: _Label = Field(description="The service; the same as `service.name` of its spans.")
    replica: _Label = Field(description="The replica, as its engine exporter or spans call it.")
    role: Literal["prefill", "decode", "both"] | None = Field(
        default=None, description="What the replica does."
    )
    pool: _Label | None = Field(default=None, description="The pool it belongs to.")
    gpus: tuple[_Label, ...] = Field(
        default=(),
        description="Its GPUs as in `CUDA_VISIBLE_DEVICES`: index, GPU-UUID or MIG-UUID.",
    )
    process: _Pattern | None = Field(
        default=None,
        description="Or a regular expression that its command line matches; the exporter must see"
        " the host's processes.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.gpus) == bool(self.process):
            raise ValueError("say either `gpus` or `process`, so that one of them tells")
        return self

    def plan(self) -> Replica:
        own = {
            "service": self.service,
            "replica": self.replica,
            "role": self.role or "",
            "pool": self.pool or "",
        }
        return Replica(series=labels_of(own), gpus=self.gpus, process=self.process)


class GpuSettings(DeliverySettings):
    """All GPUs of one node."""

    node: _Label | None = Field(
        default=None, description="What this machine is called; its host name when absent."
    )
    interval_s: float = Field(
        default=1.0, ge=1.0, le=60, description="From one reading to the next (s)."
    )
    deadline_s: float = Field(
        default=3.0, gt=0, le=300, description="A value older than this is withdrawn (s)."
    )
    replace_after_s: float = Field(
        default=30.0,
        gt=0,
        description="A GPU that hangs for longer gets a new reading process, alone (s).",
    )
    unhealthy_after_s: float = Field(
        default=120.0,
        gt=0,
        description="Without a driver for longer, `/healthz` fails, so that an orchestrator gives"
        " us a new container (s).",
    )
    release_s: float = Field(
        default=120.0,
        gt=0,
        description="SIGHUP lets go of the driver for this long, so that it can be upgraded (s).",
    )
    activity: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="SM, tensor and DRAM activity (GPM). `auto`: not where DCGM reads the same"
        " counters.",
    )
    dcgm_port: int = Field(
        default=9400, ge=1, le=65_535, description="Where a dcgm-exporter would listen."
    )
    replicas: tuple[ReplicaSettings, ...] = Field(
        default=(), description="Which replica of which engine runs on which GPUs."
    )
    kernel_log: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="XIDs from `/dev/kmsg`, if it can be read. `auto`: only of GPUs whose events the"
        " driver does not give; `on`: of all, each counted once; `off`: it is never opened.",
    )
    pod_resources: str = Field(
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
        description="The kubelet's socket that says which pod has which GPU; not used when absent.",
    )
    push_interval_s: float = Field(
        default=10.0, ge=1, le=300, description="From one export to the next (s)."
    )
    listen_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of the exporter's own page."
    )
    listen_port: int | None = Field(
        default=9466,
        ge=0,
        le=65_535,
        description="Port of `/metrics` and `/healthz`; 0: a free one. Null: no page.",
    )

    @model_validator(mode="after")
    def _sane_times(self) -> Self:
        if self.deadline_s < 2 * self.interval_s:
            raise ValueError(
                f"deadline_s {self.deadline_s:g} withdraws readings that are in time; make it at"
                f" least twice interval_s ({2 * self.interval_s:g})"
            )
        if self.replace_after_s < self.deadline_s:
            raise ValueError("replace_after_s must be at least deadline_s")
        return self

    def plan(self) -> Plan:
        """The same as plain values, for the process that does it."""
        own = type(self).model_fields.keys() - DeliverySettings.model_fields.keys()
        told = {name: getattr(self, name) for name in own}
        told["replicas"] = tuple(each.plan() for each in self.replicas)
        return Plan(**told, way=self.way())
