"""What the GPUs said since the last export, as one reading: gauges folded, counters as increments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from domain.labels import Labels, labels_of
from exporters.engine.reading import Increment, Level, Reading
from exporters.gpu.fleet import Fleet
from exporters.gpu.gpu import Gpu, metric_of

__all__ = ["Exports"]

_SECOND_NS = 1_000_000_000


class Exports:
    """Makes one reading after the other; each counts from where the last one ended."""

    def __init__(self, node: str, begun_at_ns: int) -> None:
        self._target = labels_of({"node": node})
        self._last_at_ns = begun_at_ns

    def reading(
        self,
        fleet: Fleet,
        *,
        now_s: float,
        at_ns: int,
        set_by_ns: int = 0,
        beside: Iterable[Level] = (),
    ) -> Reading:
        """`beside`: levels that are not from the driver: whom GPUs serve, which pod has them.

        `set_by_ns`: by how much somebody set the clock since the last one. What was begun by the
        old clock began so much later, or earlier, by the new.
        """
        fleet.withdraw(now_s)
        with fleet.lock:
            if abs(set_by_ns) >= _SECOND_NS:
                self._last_at_ns += set_by_ns
                for count in (each for gpu in fleet.gpus.values() for each in gpu.counts.values()):
                    count.since_ns = min(count.since_ns + set_by_ns, at_ns)
            increments = tuple(self._increments(fleet, at_ns))
            levels = (*_levels(fleet, now_s), *beside)
        self._last_at_ns = at_ns
        return Reading(
            target=self._target,
            at_ns=at_ns,
            up=not fleet.driver_down,
            increments=increments,
            levels=levels,
        )

    def _increments(self, fleet: Fleet, at_ns: int) -> Iterator[Increment]:
        for gpu in fleet.gpus.values():
            for (uuid, key), count in gpu.counts.items():
                # why also at 0: an error counter that stands still is observed, not unknown
                if count.pending or (gpu.told is not None and gpu.at_ns > count.since_ns):
                    yield Increment(
                        metric=metric_of(key),
                        labels=series(uuid, key),
                        start_at_ns=count.since_ns,
                        by=count.pending,
                    )
                    count.pending, count.since_ns = 0.0, at_ns
            yield from self._counted(gpu)

    def _counted(self, gpu: Gpu) -> Iterator[Increment]:
        """What was counted here: events and rejected readings."""
        totals = {
            (gpu.id, word.replace("xid/", "gpu_xid_errors/").replace("event/", "gpu_events/")): n
            for word, n in gpu.events.items()
        }
        totals |= {
            (uuid, f"gpu_readings_rejected/{name}"): n for (uuid, name), n in gpu.rejected.items()
        }
        for place, total in totals.items():
            if total > gpu.sent[place]:
                uuid, key = place
                yield Increment(
                    metric=metric_of(key),
                    labels=series(uuid, key),
                    start_at_ns=self._last_at_ns,
                    by=total - gpu.sent[place],
                )
                gpu.sent[place] = total


def series(uuid: str, key: str) -> Labels:
    """The labels of one series: whose it is, and the reason where the key has one."""
    return labels_of({"gpu_uuid": uuid, "reason": key.partition("/")[2]})


def _levels(fleet: Fleet, now_s: float) -> Iterator[Level]:
    yield Level(metric="gpu_driver_up", labels=(), value=0.0 if fleet.driver_down else 1.0)
    if fleet.driver_down:
        why = labels_of({"reason": fleet.driver_down})
        yield Level(metric="gpu_driver_down", labels=why, value=1.0)
    for gpu in fleet.gpus.values():
        yield from _states(gpu, fleet.state(gpu, now_s))
        for (uuid, key), folded in gpu.folded.items():
            yield Level(metric=metric_of(key), labels=series(uuid, key), value=folded.value)
        gpu.folded.clear()
        for word, at_ns in gpu.event_at_ns.items():
            if word.startswith("xid/"):
                labels = series(gpu.id, word)
                yield Level(metric="gpu_xid_last", labels=labels, value=at_ns / 1e9)


def _states(gpu: Gpu, reason: str) -> Iterator[Level]:
    own = labels_of({"gpu_uuid": gpu.id})
    yield Level(metric="gpu_up", labels=own, value=0.0 if reason else 1.0)
    if reason:
        down = labels_of({"gpu_uuid": gpu.id, "reason": reason})
        yield Level(metric="gpu_down", labels=down, value=1.0)
    yield Level(metric="gpu_index", labels=own, value=float(gpu.index))
    if gpu.labels:
        name = gpu.labels.get("name", "")
        info = labels_of({"gpu_uuid": gpu.id, "gpu_name": name})
        yield Level(metric="gpu_info", labels=info, value=1.0)
    for instance in (gpu.told or {}).get("instances", ()):
        labels = {
            "gpu_uuid": instance["uuid"],
            "gpu_name": instance["name"],
            "gpu_parent": gpu.id,
        }
        yield Level(metric="gpu_info", labels=labels_of(labels), value=1.0)
