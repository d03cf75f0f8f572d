"""What waits and what was lost, as families of a sidecar's own page."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from domain.metric import METRICS
from exporters.delivery.outbox import Outbox

__all__ = ["families"]


def families(outbox: Outbox) -> Iterator[Metric]:
    """By owner what waits, how old it is and what was dropped; and what became of all exports."""
    waiting_bytes, oldest_age = (
        Metric(METRICS[name].full_name, METRICS[name].help, "gauge")
        for name in ("spooled_bytes", "spooled_age")
    )
    for owner in sorted(outbox.owners()):
        waiting = outbox.waiting(owner)
        waiting_bytes.add_sample(waiting_bytes.name, dict(owner), waiting.size_bytes)
        oldest_age.add_sample(oldest_age.name, dict(owner), waiting.oldest_age_s)
    yield from (waiting_bytes, oldest_age, _dropped(outbox), _held(outbox), _outcomes(outbox))


def _dropped(outbox: Outbox) -> Metric:
    known = METRICS["exports_dropped"]
    family = Metric(known.full_name.removesuffix("_total"), known.help, "counter")
    for (owner, reason), n in sorted(outbox.lost().items()):
        family.add_sample(known.full_name, {**dict(owner), "reason": reason}, n)
    return family


def _held(outbox: Outbox) -> Metric:
    family = Metric("stagewatch_exporter_spool_bytes", "Exports that wait, by where.", "gauge")
    for where, size in zip(("disk", "memory"), outbox.held_bytes(), strict=True):
        family.add_sample(family.name, {"where": where}, size)
    return family


def _outcomes(outbox: Outbox) -> Metric:
    family = Metric(
        "stagewatch_exporter_exports",
        "Exports sent, tried again, refused, points that the collector rejected, disk failures.",
        "counter",
    )
    for outcome, count in sorted(outbox.counts.items()):
        family.add_sample(f"{family.name}_total", {"outcome": outcome}, count)
    return family
