"""What an endpoint's points are called while they travel as OTLP summaries."""

__all__ = [
    "ACCOUNT",
    "DIMENSION",
    "FETCHED",
    "METRIC_PREFIX",
    "NAME",
    "NAMESPACE",
    "REGION",
    "SERVICE",
    "SETTLED",
    "SOURCE",
    "STATISTIC",
    "SUMMARY",
    "quantile_name",
    "quantile_of",
]

METRIC_PREFIX = "stagewatch_endpoint_"
SERVICE, ACCOUNT, REGION = "service.name", "cloud.account.id", "cloud.region"
NAMESPACE, NAME = "aws.cloudwatch.namespace", "aws.cloudwatch.metric"
DIMENSION = "aws.cloudwatch.dimension."
SOURCE = "stagewatch.endpoint.source"
FETCHED, SETTLED = "stagewatch.endpoint.fetched_at_s", "stagewatch.endpoint.settled_at_s"
SUMMARY = "stagewatch.endpoint.summary"
"""Which of SampleCount and Sum the summary really has: its fields cannot be absent."""
STATISTIC = "stagewatch.endpoint.statistic."
"""A statistic that a summary has no field for."""

_ENDS = {"Minimum": 0.0, "Maximum": 1.0}


def quantile_of(statistic: str) -> float | None:
    """Where a statistic stands among a summary's quantiles; its ends are the extremes."""
    if statistic in _ENDS:
        return _ENDS[statistic]
    if statistic.startswith("p") and statistic not in ("p0", "p100"):
        return round(float(statistic[1:]) / 100, 6)
    return None


def quantile_name(quantile: float) -> str:
    """The statistic that a quantile is."""
    for name, end in _ENDS.items():
        if quantile == end:
            return name
    return f"p{round(quantile * 100, 4):g}"
