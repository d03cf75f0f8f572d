"""The fleet at a glance: which promises are kept, which services are slow, which engines are ill."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard

from dashboard.theme import State
from grafana.colours import STATES
from grafana.parts import REPLICA, SERVICE, board, counted, lines, number, query, row, states

__all__ = ["fleet"]


def fleet() -> dashboard.Dashboard:
    return board(
        "stagewatch-fleet",
        "Stagewatch: fleet",
        "Promises worst first; services by what their users wait for; engines by what is wrong with them.",
        [
            *_now(),
            states("Objectives", "", text="Worst first in Stagewatch itself."),
            *_services(),
            *_engines(),
        ],
        page="/",
    )


def _now() -> Sequence[object]:
    return [
        counted(
            number(
                f"{state.value}".capitalize(),
                "none",
                query(
                    f'sum(max by (objective) (stagewatch_objective_state{{state="{state}"}}))',
                    instant=True,
                ),
                text="Objectives in this state.",
            ),
            (None, "text"),
            (1, STATES[state]),
        )
        for state in State
    ] + [
        counted(
            number(
                "Engines with trouble",
                "none",
                query("sum(stagewatch_conditions_open)", instant=True),
                text="What is wrong with engines themselves; nothing known where nothing is.",
            ),
            (None, "text"),
            (1, STATES[State.TICKET]),
        )
    ]


def _services() -> Sequence[object]:
    slow = 'max by (service) (stagewatch_latency_quantile_seconds{latency="LATENCY",q="0.99",bound="high"})'
    return [
        row("Services"),
        lines(
            "P99 TTFT, at most",
            "s",
            query(slow.replace("LATENCY", "ttft"), "{{service}}"),
            text="The worst of its models and roles; the truth is not above it.",
            to=SERVICE,
        ),
        lines(
            "P99 gap between tokens, at most",
            "s",
            query(slow.replace("LATENCY", "itl"), "{{service}}"),
            to=SERVICE,
        ),
        lines(
            "Requests",
            "reqps",
            query(
                'sum by (service) (rate(stagewatch_service_requests_total{outcome="finished"}[$__rate_interval]))',
                "{{service}}",
                exemplar=True,
            ),
            text="Finished per second.",
            to=SERVICE,
        ),
        lines(
            "Not answered",
            "reqps",
            query(
                'sum by (service, outcome) (rate(stagewatch_service_requests_total{outcome=~"failed|cancelled|rejected"}[$__rate_interval]))',
                "{{service}} {{outcome}}",
            ),
            text="Absent where nobody counts it: that is not zero.",
            to=SERVICE,
        ),
    ]


def _engines() -> Sequence[object]:
    return [
        row("Engines"),
        lines(
            "Waiting requests",
            "none",
            query("sum by (service) (stagewatch_requests_waiting)", "{{service}}"),
            to=SERVICE,
        ),
        lines(
            "Used share of the KV cache",
            "percentunit",
            query("max by (service) (stagewatch_kv_cache_usage_ratio)", "{{service}}"),
            text="The fullest replica.",
            to=SERVICE,
        ),
        lines(
            "Replicas that answer",
            "none",
            query("sum by (service) (stagewatch_up)", "{{service}}"),
            text="As the sidecars say.",
            to=SERVICE,
        ),
        lines(
            "Conditions",
            "none",
            query(
                "sum by (condition, service, replica) (stagewatch_conditions_open)",
                "{{condition}}: {{replica}} of {{service}}",
            ),
            text="Stalled, down, silent: empty while all is well.",
            to=REPLICA,
        ),
    ]
