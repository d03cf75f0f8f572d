"""One service: what its users wait for, in which stage, and how its engines are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard

from dashboard.theme import State
from grafana.colours import STAGES, STATES
from grafana.parts import (
    REPLICA,
    SERVICE,
    band,
    board,
    colours,
    heat,
    lines,
    query,
    row,
    stack,
    variable,
)

__all__ = ["service"]

_OURS = 'service=~"$service",model=~"$model",role=~"$role"'
_QUANTILE = f'max by (service) (stagewatch_latency_quantile_seconds{{latency="LATENCY",q="Q",bound="BOUND",{_OURS}}})'
_BY = "service, replica"


def service() -> dashboard.Dashboard:
    return board(
        "stagewatch-service",
        "Stagewatch: service",
        "TTFT, gaps, TPOT and E2E with their doubt, the stages they are made of, and the engines behind.",
        [*_latencies(), *_stages(), *_traffic(), *_engines()],
        variables=[
            variable("service", "stagewatch_latency_values", "Service", many=False),
            variable("model", 'stagewatch_latency_values{service=~"$service"}', "Model"),
            variable("role", 'stagewatch_latency_values{service=~"$service"}', "Role"),
        ],
        page="/service/${service:percentencode}",
    )


def _latencies() -> Sequence[object]:
    named = {
        "ttft": "Time to first token",
        "itl": "Gap between tokens",
        "tpot": "Time per output token",
        "e2e": "Whole answer",
    }
    return [
        row("What users wait for"),
        *(
            band(
                title,
                "s",
                _QUANTILE.replace("LATENCY", name),
                to=SERVICE,
                text="Of the last minutes; the slowest of the models and roles chosen.",
            )
            for name, title in named.items()
        ),
    ]


def _stages() -> Sequence[object]:
    mean = f"max by (stage) (stagewatch_stage_mean_seconds{{{_OURS}}})"
    slow = f'max by (latency) (stagewatch_latency_quantile_seconds{{latency=~"queue|prefill|kv_transfer|decode",q="0.99",bound="high",{_OURS}}})'
    return [
        row("Where the time goes"),
        colours(
            stack(
                "Mean time in each stage",
                "s",
                query(mean, "{{stage}}"),
                text="Means add up; of several models or roles the slowest.",
            ),
            STAGES,
        ),
        colours(lines("P99 of each stage, at most", "s", query(slow, "{{latency}}")), STAGES),
        heat(
            "TTFT of every request",
            _increase("ttft"),
            text="As the sidecars' pages count it: where a value may lie at worst.",
        ),
        heat("Queue of every request", _increase("queue")),
    ]


def _increase(latency: str) -> str:
    return f'sum by (le) (increase(stagewatch_{latency}_seconds_bucket{{bound="high",{_OURS}}}[$__rate_interval]))'


def _traffic() -> Sequence[object]:
    return [
        row("Traffic"),
        colours(
            lines(
                "Requests by outcome",
                "reqps",
                query(
                    f"sum by (outcome) (rate(stagewatch_service_requests_total{{{_OURS}}}[$__rate_interval]))",
                    "{{outcome}}",
                    exemplar=True,
                ),
                text="A diamond is the slowest request of a scrape: open its trace.",
            ),
            {
                "finished": STATES[State.HEALTHY],
                "failed": STATES[State.PAGE],
                "cancelled": STATES[State.TICKET],
            },
        ),
        lines(
            "Tokens",
            "cps",
            query(
                f"sum by (direction) (rate(stagewatch_service_tokens_total{{{_OURS}}}[$__rate_interval]))",
                "{{direction}}",
            ),
            text="Per second, as the engines' pages count them.",
        ),
        lines(
            "Values that the quantiles rest on",
            "none",
            query(f"sum by (latency) (stagewatch_latency_values{{{_OURS}}})", "{{latency}}"),
            text="A P99 of fewer than a hundred values is its largest.",
        ),
        lines(
            "Answers begun and not ended",
            "none",
            query(
                f"sum by (service) (stagewatch_requests_started_total{{{_OURS}}}) - sum by (service) (stagewatch_requests_finished_total{{{_OURS}}})",
                "{{service}}",
            ),
            text="Since the sidecar began: running, or given up without a word.",
            to=SERVICE,
        ),
    ]


def _engines() -> Sequence[object]:
    hits = f"rate(stagewatch_prefix_cache_hits_total{{{_OURS}}}[$__rate_interval])"
    asked = f"rate(stagewatch_prefix_cache_queries_total{{{_OURS}}}[$__rate_interval])"
    return [
        row("Engines"),
        lines(
            "Running requests",
            "none",
            query(f"sum by ({_BY}) (stagewatch_requests_running{{{_OURS}}})", "{{replica}}"),
            to=REPLICA,
        ),
        lines(
            "Waiting requests",
            "none",
            query(f"sum by ({_BY}) (stagewatch_requests_waiting{{{_OURS}}})", "{{replica}}"),
            to=REPLICA,
        ),
        lines(
            "Used share of the KV cache",
            "percentunit",
            query(f"max by ({_BY}) (stagewatch_kv_cache_usage_ratio{{{_OURS}}})", "{{replica}}"),
            width=8,
            to=REPLICA,
        ),
        lines(
            "Preemptions",
            "ops",
            query(
                f"sum by ({_BY}) (rate(stagewatch_preemptions_total{{{_OURS}}}[$__rate_interval]))",
                "{{replica}}",
            ),
            text="Requests thrown out of the running batch, per second.",
            width=8,
            to=REPLICA,
        ),
        lines(
            "Prompt tokens found in the prefix cache",
            "percentunit",
            query(f"sum by ({_BY}) ({hits}) / (sum by ({_BY}) ({asked}) > 0)", "{{replica}}"),
            width=8,
            to=REPLICA,
        ),
        lines(
            "Stands still",
            "none",
            query(f"max by ({_BY}) (stagewatch_engine_stalled{{{_OURS}}})", "{{replica}}"),
            text="1 while requests are there and nothing moves; a health check cannot see this.",
            to=REPLICA,
        ),
        lines(
            "Answers",
            "none",
            query(f"max by ({_BY}) (stagewatch_up{{{_OURS}}})", "{{replica}}"),
            text="1 when the engine's page answered, 0 when it did not.",
            to=REPLICA,
        ),
    ]
