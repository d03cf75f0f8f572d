"""Managed endpoints: how CloudWatch is asked, what that costs, and how late it answers."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard

from dashboard.theme import State
from grafana.colours import STATES
from grafana.parts import board, counted, heat, lines, number, query, row

__all__ = ["endpoints"]

_PREFIX = "stagewatch_cloudwatch_"


def endpoints() -> dashboard.Dashboard:
    return board(
        "stagewatch-endpoints",
        "Stagewatch: endpoints",
        "Values of CloudWatch are minutes old and change; Prometheus would file them under now. They are on "
        "Stagewatch's own page, and here is how they are fetched.",
        [*_money(), *_asking(), *_age()],
        page="/endpoints",
    )


def _money() -> Sequence[object]:
    spent, budget = (
        f"sum by (account, region) ({_PREFIX}{name}_usd)" for name in ("spent", "budget")
    )
    return [
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
