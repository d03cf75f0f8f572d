"""Objectives: how they stand, how fast they burn, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common, dashboard
from grafana_foundation_sdk.models.common import GraphThresholdsStyleMode

from dashboard.theme import State
from grafana.colours import STATES
from grafana.parts import (
    BAND,
    OBJECTIVE,
    board,
    counted,
    lines,
    number,
    query,
    row,
    states,
    steps,
    variable,
)

__all__ = ["objectives"]

_ONE = 'objective=~"$objective"'
_PAGE, _TICKET, _KEPT = STATES[State.PAGE], STATES[State.TICKET], STATES[State.HEALTHY]


def objectives() -> dashboard.Dashboard:
    return board(
        "stagewatch-objectives",
        "Stagewatch: objectives and burn",
        "Burn rates and budgets as Stagewatch judges them, with their doubt; Grafana judges nothing.",
        [states("How they stood", f",{_ONE}"), *_now(), *_burn(), *_alerts()],
        variables=[variable("objective", "stagewatch_objective_info", "Objective")],
        page="/",
    )


def _now() -> Sequence[object]:
    left = f'min by (objective) (stagewatch_objective_budget_remaining_ratio{{bound="low",{_ONE}}})'
    gone = f"min by (objective) (stagewatch_objective_budget_exhausted_seconds{{{_ONE}}})"
    return [
        counted(
            number(
                "Budget that is surely left",
                "percentunit",
                query(left, "{{objective}}", instant=True),
                width=12,
                to=OBJECTIVE,
            ),
            (None, _PAGE),
            (0, _TICKET),
            (0.25, _KEPT),
        ),
        counted(
            number(
                "Budget gone in, at the earliest",
                "s",
                query(gone, "{{objective}}", instant=True),
                width=12,
                text="At the burn of the last hour; nothing known where it does not burn.",
                to=OBJECTIVE,
            ),
            (None, _PAGE),
            (86_400, _TICKET),
            (7 * 86_400, _KEPT),
        ),
    ]


def _burn() -> Sequence[object]:
    burning = 'max by (objective) (stagewatch_objective_burn_rate{{window="{}",bound="{}",{}}})'
    found: list[object] = [row("Burn")]
    for window in ("5m", "1h", "6h", "3d"):
        panel = lines(
            f"Burn of the last {window}",
            "none",
            query(burning.format(window, "low", _ONE), "{{objective}} low"),
            query(burning.format(window, "high", _ONE), "{{objective}} high"),
            text=f"How many times too fast; at 1 the budget lasts its period. {BAND.capitalize()}.",
            to=OBJECTIVE,
        )
        panel.thresholds(steps((None, "transparent"), (1, _TICKET))).min(0)
        panel.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE)
        )
        found.append(panel)
    return found


def _alerts() -> Sequence[object]:
    return [
        row("Budget and alerts"),
        lines(
            "Share of the budget that is left",
            "percentunit",
            query(
                f"min by (objective, bound) (stagewatch_objective_budget_remaining_ratio{{{_ONE}}})",
                "{{objective}} {{bound}}",
            ),
            text=f"{BAND.capitalize()}; below 0 it is overspent.",
            to=OBJECTIVE,
        ),
        lines(
            "Open alerts",
            "none",
            query(
                f"sum by (objective, severity, handled) (stagewatch_alerts_open{{{_ONE}}})",
                "{{severity}} of {{objective}}, handled: {{handled}}",
            ),
            text="Empty while nothing is open.",
            to=OBJECTIVE,
        ),
        lines(
            "Age of the newest minute that was judged",
            "s",
            query(
                f"time() - max by (objective) (stagewatch_objective_evaluated_timestamp_seconds{{{_ONE}}})",
                "{{objective}}",
            ),
            text="It grows where nobody judges.",
            to=OBJECTIVE,
        ),
        lines(
            "Promised share",
            "percentunit",
            query(
                f"max by (objective) (stagewatch_objective_target_ratio{{{_ONE}}})", "{{objective}}"
            ),
            to=OBJECTIVE,
        ),
    ]
