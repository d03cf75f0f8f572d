"""The GPU exporter's settings: how often it reads, whom the GPUs serve, where readings go."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from domain.labels import MAX_LABEL_LENGTH, labels_of
from exporters.gpu.plan import Plan, Replica

__all__ = ["GpuSettings", "ReplicaSettings"]

_MIB = 1024 * 1024
_Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)]


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no web address; write http://host:port")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a password in a URL ends up in logs; leave it out of the address")
    return url


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


_Url = Annotated[str, AfterValidator(_web_address)]
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


class GpuSettings(BaseModel):
    """All GPUs of one node."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    pod_resources: str = Field(
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
        description="The kubelet's socket that says which pod has which GPU; not used when absent.",
    )
    endpoint: _Url | None = Field(
        default="http://127.0.0.1:4318",
        description="The collector's OTLP/HTTP address, without `/v1/metrics`. Null: do not push.",
    )
    token: SecretStr | None = Field(
        default=None, description="Bearer token that the collector asks for."
    )
    push_interval_s: float = Field(
        default=10.0, ge=1, le=300, description="From one export to the next (s)."
    )
    push_timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="An export must be answered within this time (s)."
    )
    queue_bytes: int = Field(
        default=32 * _MIB,
        ge=64 * 1024,
        description="Exports that wait for the collector; beyond, the oldest are dropped (bytes).",
    )
    queue_age_s: float = Field(
        default=3600.0, gt=0, description="An export that waited longer is dropped (s)."
    )
    listen_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of the exporter's own page."
    )
    listen_port: int | None = Field(
        default=9465,
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
        told = {name: getattr(self, name) for name in type(self).model_fields}
        told["replicas"] = tuple(each.plan() for each in self.replicas)
        told["token"] = self.token.get_secret_value() if self.token is not None else None
        return Plan(**told)
