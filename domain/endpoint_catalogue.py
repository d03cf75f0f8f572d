"""What is asked of CloudWatch: one row per metric with its unit, statistics, tier and dimensions.

Units come from this table, never from an answer: GetMetricData answers carry none, and a query that
names a unit other than the published one finds nothing. `docs/watch-aws-endpoints.md` says where
AWS describes each namespace.
"""

from collections.abc import Iterable

from domain.endpoint_metric import EndpointMetric, Family, Meaning, Tier

__all__ = ["CATALOGUE", "KINDS", "metric_of", "of_kind", "units_fit"]

_FACTORS = {"Microseconds": 1e-6, "Milliseconds": 1e-3, "Seconds": 1.0, "Percent": 0.01}
_DISTRIBUTION = ("SampleCount", "Sum", "p50", "p99")
"""With one `PR(:threshold)` these are the five that are billed as one."""
_EXTREME = ("SampleCount", "Sum", "Maximum")
_WALL = (*_DISTRIBUTION, "Maximum")  # a maximum that stands still is a timeout
_SUM = ("Sum",)
_OBJECTIVE, _WARM, _COLD = Tier
_Rows = Iterable[EndpointMetric]

_VARIANT = ("EndpointName", "VariantName")
_COMPONENT = ("InferenceComponentName",)
_PLACE = ("Region", "AvailabilityZone", "InstanceType")
_SAGEMAKER = Family(
    kind="sagemaker",
    namespace="AWS/SageMaker",
    dimensions=_VARIANT,
    named_by="EndpointName",
    drill_down=(
        _COMPONENT,
        (*_VARIANT, "InstanceId"),
        (*_VARIANT, "InferenceComponentName", "InstanceId", "ContainerId"),
        (*_VARIANT, *_PLACE),
        (*_COMPONENT, *_PLACE),
    ),
)
_INSTANCES = Family(
    kind="sagemaker",
    namespace="/aws/sagemaker/Endpoints",
    dimensions=_VARIANT,
    named_by="EndpointName",
    drill_down=((*_VARIANT, "InstanceId"), (*_VARIANT, "InstanceId", "AcceleratorId")),
)
_COMPONENTS = Family(
    kind="sagemaker_component",
    namespace="/aws/sagemaker/InferenceComponents",
    dimensions=_COMPONENT,
    named_by="InferenceComponentName",
)
_COPIES = Family(
    kind="sagemaker_component",
    namespace="AWS/SageMaker",
    dimensions=_COMPONENT,
    named_by="InferenceComponentName",
)
_BEDROCK = Family(
    kind="bedrock", namespace="AWS/Bedrock", dimensions=("ModelId",), named_by="ModelId"
)
_MANTLE = Family(
    kind="mantle",
    namespace="AWS/BedrockMantle",
    dimensions=("Project", "Model"),
    named_by="Model",
    drill_down=((), ("Project",), ("Model",)),
)
_REST = Family(
    kind="rest_api",
    namespace="AWS/ApiGateway",
    dimensions=("ApiName", "Stage"),
    named_by="ApiName",
    drill_down=(("ApiName",), ("ApiName", "Stage", "Resource", "Method")),
)
_HTTP = Family(
    kind="http_api",
    namespace="AWS/ApiGateway",
    dimensions=("ApiId", "Stage"),
    named_by="ApiId",
    drill_down=(("ApiId",), ("ApiId", "Stage", "Route")),
)
_LAMBDA = Family(
    kind="lambda",
    namespace="AWS/Lambda",
    dimensions=("FunctionName",),
    named_by="FunctionName",
    drill_down=((), ("FunctionName", "Resource")),
)
_BALANCER = Family(
    kind="load_balancer",
    namespace="AWS/ApplicationELB",
    dimensions=("LoadBalancer",),
    named_by="LoadBalancer",
    drill_down=(
        ("LoadBalancer", "TargetGroup"),
        ("LoadBalancer", "AvailabilityZone"),
        ("LoadBalancer", "TargetGroup", "AvailabilityZone"),
    ),
)
_CLOUDFRONT = Family(
    kind="cloudfront",
    namespace="AWS/CloudFront",
    dimensions=("DistributionId", "Region"),
    named_by="DistributionId",
)
_INSIGHTS = Family(
    kind="container_insights",
    namespace="ContainerInsights",
    dimensions=("ClusterName",),
    named_by="ClusterName",
    drill_down=(("ClusterName", "Namespace"), ("ClusterName", "Namespace", "PodName")),
)


def _latency(
    family: Family,
    name: str,
    ours: str,
    unit: str,
    *,
    tier: Tier = _OBJECTIVE,
    statistics: tuple[str, ...] = _DISTRIBUTION,
    optional: bool = False,
    note: str = "",
) -> EndpointMetric:
    return EndpointMetric(
        family=family,
        name=name,
        ours=ours,
        meaning=Meaning.LATENCY,
        tier=tier,
        unit=unit,
        per_unit=_FACTORS[unit],
        statistics=statistics,
        optional=optional,
        note=note,
    )


def _events(
    family: Family,
    name: str,
    ours: str,
    tier: Tier,
    *,
    statistics: tuple[str, ...] = _SUM,
    unit: str = "Count",
    optional: bool = False,
) -> EndpointMetric:
    return EndpointMetric(
        family=family,
        name=name,
        ours=ours,
        meaning=Meaning.EVENTS,
        tier=tier,
        unit=unit,
        per_unit=1.0,
        statistics=statistics,
        zero_if_silent=True,
        optional=optional,
    )


def _level(
    family: Family,
    name: str,
    ours: str,
    tier: Tier,
    *,
    unit: str = "Percent",
    statistics: tuple[str, ...] = _EXTREME,
    optional: bool = False,
    per_accelerator: bool = False,
    note: str = "",
) -> EndpointMetric:
    return EndpointMetric(
        family=family,
        name=name,
        ours=ours,
        meaning=Meaning.LEVEL,
        tier=tier,
        unit=unit,
        per_unit=_FACTORS.get(unit, 1.0),
        statistics=statistics,
        optional=optional,
        per_accelerator=per_accelerator,
        note=note,
    )


def _sagemaker() -> _Rows:
    us = "Microseconds"
    note = "request to response of the container: no TTFT, whatever is streamed"
    yield _latency(_SAGEMAKER, "ModelLatency", "model_latency", us, note=note)
    note = "streams; whether one-way streams publish it is not documented"
    yield _latency(_SAGEMAKER, "FirstChunkLatency", "first_chunk", us, optional=True, note=note)
    # AWS lists no percentiles of the overhead
    yield _latency(
        _SAGEMAKER, "OverheadLatency", "endpoint_overhead", us, tier=_WARM, statistics=_EXTREME
    )
    for name, ours in (
        ("ModelSetupTime", "cold_start"),
        ("FirstChunkModelLatency", "first_chunk_model"),
        ("FirstChunkOverheadLatency", "first_chunk_overhead"),
    ):
        yield _latency(_SAGEMAKER, name, ours, us, tier=_COLD, optional=True)
    for name, ours, tier in (
        ("Invocations", "invocations", _OBJECTIVE),
        ("Invocation5XXErrors", "server_errors", _OBJECTIVE),
        ("InvocationModelErrors", "model_errors", _WARM),
        ("MidStreamErrors", "mid_stream_errors", _WARM),
        ("Invocation4XXErrors", "client_errors", _COLD),
    ):
        optional = name == "MidStreamErrors"
        yield _events(_SAGEMAKER, name, ours, tier, unit="None", optional=optional)
    for family, name in (
        (_SAGEMAKER, "ConcurrentRequestsPerModel"),
        (_COPIES, "ConcurrentRequestsPerCopy"),
    ):
        yield _level(
            family,
            name,
            "concurrent_requests",
            _WARM,
            unit="None",
            statistics=("Minimum", "Maximum"),
            optional=True,
            note="the queued ones too",
        )


def _instances() -> _Rows:
    for name, ours, tier in (
        ("GPUUtilization", "gpu_utilization", _WARM),
        ("GPUMemoryUtilization", "gpu_memory", _COLD),
    ):
        note = "the sum over the GPUs of an instance"
        yield _level(_INSTANCES, name, ours, tier, per_accelerator=True, note=note)
    cores = "the sum over cores"
    yield _level(_INSTANCES, "CPUUtilization", "cpu_utilization", _COLD, note=cores)
    yield _level(_INSTANCES, "MemoryUtilization", "memory", _COLD)
    yield _level(_INSTANCES, "DiskUtilization", "disk", _COLD)
    shares = (
        ("GPUUtilizationNormalized", "gpu_utilization_share"),
        ("GPUMemoryUtilizationNormalized", "gpu_memory_share"),
        ("CPUUtilizationNormalized", "cpu_utilization_share"),
    )
    for name, ours in shares:
        yield _level(_INSTANCES, name, ours, _COLD, optional=True)
    for name, ours in (*shares, ("MemoryUtilizationNormalized", "memory_share")):
        yield _level(_COMPONENTS, name, ours, _COLD)


def _bedrock() -> _Rows:
    ms = "Milliseconds"
    yield _latency(_BEDROCK, "InvocationLatency", "e2e", ms, note="to the last token")
    note = "streaming APIs, successful requests"
    yield _latency(_BEDROCK, "TimeToFirstToken", "ttft", ms, note=note)
    with_p99 = ("SampleCount", "Sum", "p99")
    for name, ours, tier, statistics in (
        ("Invocations", "invocations", _OBJECTIVE, _SUM),
        ("InvocationServerErrors", "server_errors", _OBJECTIVE, _SUM),
        ("InvocationThrottles", "throttles", _OBJECTIVE, _SUM),
        ("InputTokenCount", "prompt_tokens", _WARM, with_p99),
        ("OutputTokenCount", "generation_tokens", _WARM, with_p99),
        ("InvocationClientErrors", "client_errors", _COLD, _SUM),
    ):
        yield _events(_BEDROCK, name, ours, tier, statistics=statistics)
    for name, ours in (  # copies of AWS's pages spell them either way
        ("CacheReadInputTokens", "cached_tokens"),
        ("CacheReadInputTokenCount", "cached_tokens"),
        ("CacheWriteInputTokens", "cache_writes"),
        ("CacheWriteInputTokenCount", "cache_writes"),
    ):
        yield _events(_BEDROCK, name, ours, _COLD, optional=True)
    yield _level(
        _BEDROCK,
        "EstimatedTPMQuotaUsage",
        "quota_tokens_per_minute",
        _WARM,
        unit="Count",
        note="tokens, no share; an estimate",
    )
    for name, ours, tier in (
        ("Inferences", "invocations", _OBJECTIVE),
        ("InferenceClientErrors", "client_errors", _WARM),
        ("TotalInputTokens", "prompt_tokens", _WARM),
        ("TotalOutputTokens", "generation_tokens", _WARM),
    ):
        yield _events(_MANTLE, name, ours, tier)


def _path() -> _Rows:
    ms = "Milliseconds"
    for family, worse, worst in ((_REST, "4XXError", "5XXError"), (_HTTP, "4xx", "5xx")):
        for name, ours in (
            ("Latency", "gateway_latency"),
            ("IntegrationLatency", "integration_latency"),
        ):
            yield _latency(family, name, ours, ms, tier=_WARM, statistics=_WALL)
        yield _events(family, "Count", "invocations", _WARM, statistics=("SampleCount",))
        yield _events(family, worst, "server_errors", _WARM)
        yield _events(family, worse, "client_errors", _COLD)
    yield _latency(_LAMBDA, "Duration", "function_duration", ms, tier=_WARM, statistics=_WALL)
    for name, ours in (
        ("Invocations", "invocations"),
        ("Errors", "server_errors"),
        ("Throttles", "throttles"),
    ):
        yield _events(_LAMBDA, name, ours, _WARM)
    yield _latency(_BALANCER, "TargetResponseTime", "target_response", "Seconds", tier=_WARM)
    for name, ours in (
        ("RequestCount", "invocations"),
        ("HTTPCode_Target_5XX_Count", "server_errors"),
        ("HTTPCode_ELB_5XX_Count", "balancer_errors"),
        ("HTTPCode_ELB_504_Count", "balancer_timeouts"),
    ):
        yield _events(_BALANCER, name, ours, _WARM)
    yield _latency(_CLOUDFRONT, "OriginLatency", "origin_latency", ms, tier=_WARM, optional=True)
    yield _events(_CLOUDFRONT, "Requests", "invocations", _WARM, unit="None")
    for name, ours in (("5xxErrorRate", "server_errors"), ("504ErrorRate", "timeouts")):
        yield _level(_CLOUDFRONT, name, f"{ours}_share", _WARM, statistics=("Average",))
    for name, ours in (
        ("node_gpu_utilization", "gpu_utilization_share"),
        ("node_gpu_memory_utilization", "gpu_memory_share"),
    ):
        yield _level(_INSIGHTS, name, ours, _COLD, optional=True)


CATALOGUE: tuple[EndpointMetric, ...] = (*_sagemaker(), *_instances(), *_bedrock(), *_path())
KINDS = tuple(sorted({row.family.kind for row in CATALOGUE}))
_BY_NAME: dict[tuple[str, str], list[EndpointMetric]] = {}
for _row in CATALOGUE:
    _BY_NAME.setdefault((_row.namespace, _row.name), []).append(_row)
_COUNTS = frozenset(("Count", "None"))  # published either way, and the same thing


def of_kind(kind: str) -> tuple[EndpointMetric, ...]:
    """Every metric of one kind of endpoint."""
    return tuple(row for row in CATALOGUE if row.family.kind == kind)


def metric_of(
    namespace: str, name: str, dimensions: Iterable[str]
) -> tuple[EndpointMetric, str] | None:
    """The metric, and `endpoint` or the drill-down its dimensions make of it; None: not ours."""
    own = frozenset(dimensions)
    rows = _BY_NAME.get((namespace, name), [])
    for row in rows:
        if own == frozenset(row.family.dimensions):
            return row, "endpoint"
    for row in rows:
        if any(own == frozenset(names) for names in row.family.drill_down):
            return row, "+".join(sorted(own)) or "account"
    return None


def units_fit(metric: EndpointMetric, unit: str) -> bool:
    """Whether a record that names this unit may be this metric."""
    return unit == metric.unit or {unit, metric.unit} <= _COUNTS
