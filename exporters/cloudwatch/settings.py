"""The CloudWatch exporter's settings: which accounts and endpoints, how often, for how much."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.endpoint_catalogue import CATALOGUE, of_kind
from domain.endpoint_metric import TIERS_S, Meaning
from domain.labels import MAX_LABEL_LENGTH
from exporters.delivery.settings import DeliverySettings, WebAddress

__all__ = ["CloudWatchSettings", "EndpointSettings", "PrometheusSettings", "ScopeSettings"]

Kind = Literal[
    "bedrock",
    "cloudfront",
    "container_insights",
    "http_api",
    "lambda",
    "load_balancer",
    "mantle",
    "rest_api",
    "sagemaker",
    "sagemaker_component",
]
_Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH)]
_Seconds = Annotated[float, Field(gt=0, le=3600)]
_LATENCIES = frozenset(row.ours for row in CATALOGUE if row.meaning is Meaning.LATENCY)
_THRESHOLDS_S = {"ttft": 2.0, "first_chunk": 2.0, "model_latency": 10.0, "e2e": 20.0}
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


def _check_thresholds(thresholds_s: Mapping[str, float]) -> None:
    for name in thresholds_s:
        if name not in _LATENCIES:
            raise ValueError(
                f"{name!r} is no latency of an endpoint; use one of {', '.join(sorted(_LATENCIES))}"
            )


class EndpointSettings(BaseModel):
    """One endpoint, and what we call it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind = Field(description="What it is: `sagemaker`, `bedrock`, `rest_api`, …")
    dimensions: Mapping[str, _Label] = Field(
        description="Its CloudWatch dimensions, such as `{ModelId: …}`, spelt as AWS does."
    )
    service: _Label | None = Field(
        default=None, description="Our name for it; its own name when absent."
    )
    thresholds_s: Mapping[str, _Seconds] = Field(
        default={}, description="Good requests are counted up to these (s), instead of the general."
    )
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="GPUs of one instance of a `sagemaker` endpoint; by its instance type when absent.",
    )

    @model_validator(mode="after")
    def _dimensions_of_its_kind(self) -> Self:
        seen: dict[str, str] = {}
        for name in self.dimensions:
            clean = _UNSAFE.sub("_", name)
            if clean in seen:
                raise ValueError(
                    f"the dimensions {seen[clean]!r} and {name!r} become the same label {clean!r}; "
                    "name only one of them"
                )
            seen[clean] = name
        wanted = {row.family.dimensions for row in of_kind(self.kind)}
        if not any(set(names) == set(self.dimensions) for names in wanted):
            said = " or ".join(" and ".join(names) for names in sorted(wanted))
            raise ValueError(f"an endpoint of kind {self.kind} is named by its {said}")
        _check_thresholds(self.thresholds_s)
        return self


class PrometheusSettings(BaseModel):
    """One question to CloudWatch's PromQL endpoint, whose answer is kept as a series."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    service: _Label = Field(description="The service that the answer belongs to.")
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] = Field(
        description="What the answer is called, such as `ttft_p99`."
    )
    query: Annotated[str, Field(min_length=1, max_length=10_000)] = Field(
        description="PromQL that names its metric; labels with dots in quotes."
    )


class ScopeSettings(BaseModel):
    """One account and region, and whose credentials read it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    account: Annotated[str, Field(pattern=r"^\d{12}$")] = Field(
        description="The account's 12 digits, in quotes."
    )
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z0-9]+)+-\d$")] = Field(
        description="Such as `us-east-1`."
    )
    role_arn: Annotated[str, Field(pattern=r"^arn:[^\s]+$")] | None = Field(
        default=None, description="A role to assume; without it boto3's own chain of credentials."
    )
    external_id: _Label | None = Field(default=None, description="What the role asks for, if so.")
    linked: bool = Field(
        default=False,
        description="The credentials are those of a monitoring account that `account` is linked to.",
    )
    endpoints: tuple[EndpointSettings, ...] = Field(default=(), description="Endpoints by name.")
    discover: tuple[Kind, ...] = Field(
        default=(),
        description="Kinds of endpoints to look for by ListMetrics and SageMaker's lists.",
    )
    promql: tuple[PrometheusSettings, ...] = Field(
        default=(), description="Questions to CloudWatch's PromQL endpoint, each minute."
    )
    budget_usd_per_day: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="GetMetricData may cost this much a day; cold metrics stop first."
    )
    endpoint_url: WebAddress | None = Field(
        default=None, description="Another address than AWS's, such as a VPC endpoint's."
    )

    @model_validator(mode="after")
    def _something_to_read(self) -> Self:
        if not (self.endpoints or self.discover or self.promql):
            raise ValueError("nothing to read: give `endpoints`, or kinds to `discover`")
        named = [(e.kind, tuple(sorted(e.dimensions.items()))) for e in self.endpoints]
        if twice := next((name for name in named if named.count(name) > 1), None):
            raise ValueError(f"the endpoint {dict(twice[1])} stands here twice")
        return self


class CloudWatchSettings(DeliverySettings):
    """All accounts of one exporter, how they are read, and where what they say goes."""

    scopes: tuple[ScopeSettings, ...] = Field(
        min_length=1, description="The accounts and regions to read."
    )
    thresholds_s: Mapping[str, _Seconds] = Field(
        default=_THRESHOLDS_S,
        description="Good requests are counted up to these (s), by metric: use your objectives'.",
    )
    settle_lag_s: float = Field(
        default=180.0,
        ge=60,
        le=3600,
        description="A younger point is provisional (s); longer where points are seen to change.",
    )
    reread_s: float = Field(
        default=1200.0,
        ge=60,
        le=3600,
        description="Each call reads this far back again (s): late points cost nothing.",
    )
    backfill_s: float = Field(
        default=3 * 3600.0,
        ge=1800,
        le=86_400,
        description="How far back a call reads after a start or an outage (s).",
    )
    idle_after_s: float = Field(
        default=900.0, ge=300, description="Without traffic for so long, an endpoint is idle (s)."
    )
    calls_per_s: float = Field(
        default=10.0, gt=0, le=50, description="Calls of one API, account and region (per second)."
    )
    discover_interval_s: float = Field(
        default=900.0, ge=300, description="From one look at the lists to the next (s)."
    )
    listen_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of the exporter's own page."
    )
    listen_port: int | None = Field(
        default=9467,
        ge=0,
        le=65_535,
        description="Port of the exporter's own `/metrics`; 0: a free one. Null: no page.",
    )

    @model_validator(mode="after")
    def _no_gap_between_calls(self) -> Self:
        least_s = self.reread_s + max(idle_s for _, idle_s in TIERS_S.values())
        if self.backfill_s < least_s:
            raise ValueError(
                f"between two calls points would be lost; use a backfill_s of {least_s:g} or more"
            )
        return self

    @model_validator(mode="after")
    def _scopes_apart(self) -> Self:
        _check_thresholds(self.thresholds_s)
        places = [(scope.account, scope.region) for scope in self.scopes]
        if twice := next((place for place in places if places.count(place) > 1), None):
            raise ValueError(f"{' '.join(twice)} stands here twice; put its endpoints together")
        return self
