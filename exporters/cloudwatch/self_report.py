"""What the sidecar tells the collector of itself: what it spent today, of how much, and what waits."""

from __future__ import annotations

from domain.labels import Labels, labels_of
from exporters.cloudwatch.plan import Budget
from exporters.delivery.delivery import Delivery
from exporters.delivery.export import Export
from exporters.engine.otlp import export_request
from exporters.engine.reading import Level, Reading

__all__ = ["owner_of", "self_report"]

_NS = 1_000_000_000


def owner_of(account: str, region: str) -> Labels:
    """Whose numbers these are: an account is told as a namespace."""
    return labels_of({"namespace": account, "region": region, "source": "page"})


def self_report(owner: Labels, budget: Budget, delivery: Delivery, *, now_s: float) -> Export:
    """One export of all of it; a budget that nobody set is absent."""
    waiting = delivery.waiting(owner)
    told = {
        "cloudwatch_spending": budget.spent_usd(now_s),
        "cloudwatch_allowance": budget.usd_per_day,
        "spooled_bytes": float(waiting.size_bytes),
        "spooled_age": waiting.oldest_age_s,
    }
    levels = tuple(
        Level(metric=metric, labels=owner, value=value)
        for metric, value in told.items()
        if value is not None
    )
    reading = Reading(target=owner, at_ns=round(now_s * _NS), up=True, levels=levels)
    body = export_request(reading).SerializeToString()
    return Export(owner=owner, at_ns=reading.at_ns, body=body)
