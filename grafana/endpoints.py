"""Managed endpoints: what CloudWatch says of them, how it is asked, and how late it answers."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard

from dashboard.theme import State
from grafana.colours import STATES
from grafana.parts import (
    board,
    counted,
    heat,
    lines,
    number,
    query,
    row,
    variable,
)

__all__ = ["endpoints"]

_PREFIX = "stagewatch_cloudwatch_"
_OURS = 'service=~"$service",region=~"$region"'
_BY = "service, metric"


def endpoints() -> dashboard.Dashboard:
    return board(
        "stagewatch-endpoints",
        "Stagewatch: endpoints",
        "The newest settled minute of each metric, filed under that minute: it is some minutes old. "
        "Younger ones still change and are on Stagewatch's own page.",
        [*_latencies(), *_traffic(), *_money(), *_asking(), *_age()],
        variables=[
            variable("service", "stagewatch_endpoint_settled_timestamp_seconds", "Service"),
            variable("region", "stagewatch_endpoint_settled_timestamp_seconds", "Region"),
        ],
        page="/endpoints",
    )


def _latencies() -> Sequence[object]:
    slow = f'max by ({_BY}) (stagewatch_endpoint_latency_seconds{{statistic="STATISTIC",{_OURS}}})'
    return [
        row("What its users wait for"),
        *(
            lines(
                title,
                "s",
                query(slow.replace("STATISTIC", statistic), "{{service}} {{metric}}"),
                text=f"{text} Of each minute by itself: do not add or average them.",
            )
            for title, statistic, text in (
                ("P99 of each latency", "p99", "As CloudWatch works it out."),
                ("P50 of each latency", "p50", "As CloudWatch works it out."),
            )
        ),
    ]


def _traffic() -> Sequence[object]:
    shares = "cpu|gpu|memory|disk|.+_share|.+_utilization"
    return [
        row("Traffic and limits"),
        lines(
            "Requests",
            "cpm",
            query(_events("invocations"), "{{service}}"),
            text="A minute. Absent is unknown, 0 is none.",
        ),
        lines(
            "Errors and throttles",
            "cpm",
            query(_events(".+_errors|throttles|.+_timeouts"), "{{service}} {{metric}}"),
            text="A minute; throttled requests never reached the model.",
        ),
        lines(
            "Tokens",
            "cpm",
            query(_events(".+_tokens"), "{{service}} {{metric}}"),
            text="A minute, where the service counts them.",
        ),
        lines(
            "In use",
            "percentunit",
            query(
                f'max by ({_BY}) (stagewatch_endpoint_level{{metric=~"{shares}",statistic="mean",{_OURS}}})',
                "{{service}} {{metric}}",
            ),
            text="Of the busiest endpoint; of GPUs only where their number is known.",
        ),
    ]


def _events(names: str) -> str:
    return f'sum by ({_BY}) (stagewatch_endpoint_events{{metric=~"{names}",{_OURS}}})'


def _money() -> Sequence[object]:
    spent, budget = (
        f"sum by (account, region) ({_PREFIX}{name}_usd)" for name in ("spent", "budget")
    )
    return [
        row("What asking costs"),
        number(
            "Spent today",
            "currencyUSD",
            query(spent, "{{account}} {{region}}", instant=True),
            width=8,
            text="On GetMetricData, since midnight UTC.",
        ),
        counted(
            number(
                "Of the day's budget",
                "percentunit",
                query(f"{spent} / {budget}", "{{account}} {{region}}", instant=True),
                width=8,
            ),
            (None, STATES[State.HEALTHY]),
            (0.8, STATES[State.TICKET]),
            (1, STATES[State.PAGE]),
        ),
        number(
            "Stopped to keep the budget",
            "none",
            query(
                f"sum by (account, region) ({_PREFIX}budget_stops)",
                "{{account}} {{region}}",
                instant=True,
            ),
            width=8,
        ),
    ]


def _asking() -> Sequence[object]:
    by = "account, region"
    return [
        row("Asking"),
        lines(
            "Calls",
            "cpm",
            query(
                f"60 * sum by (api, outcome) (rate({_PREFIX}calls_total[$__rate_interval]))",
                "{{api}} {{outcome}}",
            ),
            text="A minute; throttled ones are tried again.",
        ),
        lines(
            "Series by what CloudWatch said of them",
            "none",
            query(f"sum by (status) ({_PREFIX}series)", "{{status}}"),
        ),
        lines(
            "Points that were new, changed or settled",
            "cpm",
            query(
                f"60 * sum by ({by}) (rate({_PREFIX}points_total[$__rate_interval]))",
                "{{account}} {{region}}",
            ),
        ),
        lines(
            "Given up or left out",
            "cpm",
            query(
                f"60 * sum by ({by}) (rate({_PREFIX}failed_calls_total[$__rate_interval]))",
                "calls {{region}}",
            ),
            query(
                f"60 * sum by ({by}) (rate({_PREFIX}skipped_series_total[$__rate_interval]))",
                "series {{region}}",
            ),
        ),
    ]


def _age() -> Sequence[object]:
    return [
        row("How late it is"),
        lines(
            "Age of the newest settled period",
            "s",
            query(f"max by (service) ({_PREFIX}settled_age_seconds)", "{{service}}"),
            text="It grows where CloudWatch answers nothing any more.",
        ),
        lines(
            "A younger point may still change",
            "s",
            query(f"max by (namespace) ({_PREFIX}settle_lag_seconds)", "{{namespace}}"),
        ),
        heat(
            "How late changes came",
            f"sum by (le) (increase({_PREFIX}late_update_seconds_bucket[$__rate_interval]))",
            width=24,
        ),
    ]
