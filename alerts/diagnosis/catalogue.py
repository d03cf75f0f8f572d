"""All rules, in the order in which the families are asked."""

from __future__ import annotations

from alerts.diagnosis import capacity, edge, hardware, serving, whereabouts, workers
from alerts.diagnosis.rule import Rule

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    *whereabouts.RULES,
    *capacity.RULES,
    *hardware.RULES,
    *edge.RULES,
    *serving.RULES,
    *workers.RULES,
)
