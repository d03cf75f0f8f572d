"""How the data are: fresh by service, sent by sidecars, taken by the collector, kept by the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collector.query import Freshness, Reader, Selection, Window
from dashboard.health_line import Health, bytes_text
from dashboard.quantity import age, count, percent, span
from dashboard.theme import State
from dashboard.vitals import Limits, Vitals
from domain.labels import Labels, value_of

__all__ = ["cloudwatch_lines", "ingest_lines", "service_lines", "sidecar_lines", "store_lines"]

_SILENT_S = 180
_LAGGING_S = 120
_OLD_SPOOL_S = 300
_NEARLY = 0.8
_FULL_DISK = 0.1
_NOTICEABLE = 0.01
_MOST = 30
_OWN = "stagewatch_collector_"
_STEPS = {
    "unauthenticated": "give the sender one of `collector.tokens`",
    "overloaded": "give the store a faster disk, or raise `collector.queue_bytes`",
    "store": "look at the disk, and at our log",
    "malformed": "look at the sender: its bytes are no OTLP",
    "too_large": "make the sender's batches smaller, or raise `collector.max_body_bytes`",
    "partial": "look at our log: it names each series that was refused, and why",
    "content_type": "send protobuf or JSON",
    "encoding": "send gzip or nothing",
    "logs": "send no logs here",
}


def service_lines(found: Sequence[Freshness], now_s: int) -> Iterator[Health]:
    """One a service: how old its newest value is, and how many of its replicas are seen."""
    for each in found[:_MOST]:
        if each.newest_at_s is None:
            yield Health(
                what=each.service or "no service named",
                state=State.NO_TRAFFIC,
                now="nothing in this window",
                step="look whether its sidecar runs, or that it was taken away",
                word="not heard of",
            )
            continue
        age_s = now_s - each.newest_at_s
        unseen = [r for r in each.replicas if now_s - r.last_seen_at_s > _SILENT_S]
        sources = ", ".join(sorted({s for r in each.replicas for s in r.sources}))
        whole = len(each.replicas)
        state, step = State.HEALTHY, ""
        if age_s > _SILENT_S:
            state, step = State.NOT_OBSERVED, "look at its sidecar, and at the way from it to here"
        elif unseen:
            state = State.TICKET
            step = f"look at {_named(value_of(r.labels, 'replica') for r in unseen)}"
        seen = f"{whole - len(unseen)} of {whole} replicas seen" if whole else ""
        yield Health(
            what=each.service or "no service named",
            state=state,
            now=f"{age(age_s)} old",
            note=f"{seen}{'; ' if seen and sources else ''}{sources}",
            step=step,
        )


def sidecar_lines(reader: Reader, window: Window) -> Iterator[Health]:
    """What waits on the disks of sidecars, and what was lost on the way."""
    by = ("service", "node", "namespace", "replica")
    last = Window(since_s=max(window.since_s, window.until_s - 600), until_s=window.until_s)
    waiting = _last(reader, "spooled_bytes", last, by)
    ages = _last(reader, "spooled_age", last, by)
    for labels, size in waiting.items():
        age_s = ages.get(labels, 0.0)
        if not size:
            continue
        late = age_s > _OLD_SPOOL_S
        yield Health(
            what=_owner(labels),
            state=State.TICKET if late else State.HEALTHY,
            now=f"{bytes_text(size)} waits",
            note=f"the oldest for {age(age_s)}",
            step="look whether it reaches us: its log says why it waits" if late else "",
        )
    yield from _lost(reader, window)
    if waiting and not any(waiting.values()):
        yield Health(
            what=f"{count(len(waiting))} sidecars",
            state=State.HEALTHY,
            now="nothing waits",
            note="each export is here",
        )


def _lost(reader: Reader, window: Window) -> Iterator[Health]:
    by = ("service", "node", "namespace", "replica", "reason")
    for each in reader.numbers("exports_dropped", Selection(window=window, where=(), by=by)):
        lost = sum(point.value for point in each.points)
        if lost:
            reason = value_of(each.labels, "reason")
            yield Health(
                what=_owner(each.labels),
                state=State.TICKET,
                now=f"{count(lost)} exports lost",
                note=reason.replace("_", " "),
                step="give its spool more room or a longer age, and mend the way from it to here",
                word="lost data",
            )


def ingest_lines(
    reader: Reader, counted: Mapping[str, float], vitals: Vitals, now_s: int
) -> Iterator[Health]:
    """How far behind taking is, what was refused, and what came late."""
    mark_s = reader.watermark_s()
    lag_s = None if mark_s is None else max(now_s - mark_s, 0)
    lagging = lag_s is not None and lag_s > _LAGGING_S
    yield Health(
        what="Ingest",
        state=State.NO_TRAFFIC if lag_s is None else State.TICKET if lagging else State.HEALTHY,
        now="no source is live" if lag_s is None else f"{age(lag_s)} behind",
        note="up to where the data of every live source have arrived",
        step="find the source that is behind, above" if lagging else "",
    )
    yield from _rolling_up(counted)
    if not vitals.collects:
        yield _elsewhere("Exports", "the collector runs in another process: look at its /metrics")
        return
    yield from _refused(vitals)
    yield from _late(vitals)


def _rolling_up(counted: Mapping[str, float]) -> Iterator[Health]:
    dirty = counted.get("dirty_tiles")
    if dirty is not None:
        yield Health(
            what="Tiles to be rolled up again",
            state=State.HEALTHY,
            now=count(dirty),
            note="answers are right meanwhile",
        )
    if incomplete := counted.get("incomplete_requests"):
        yield Health(
            what="Requests of which a span is missing",
            state=State.TICKET,
            now=count(incomplete),
            note="of ten minutes, two minutes ago",
            step="send the spans of both halves and of the frontend here, from every process",
        )


def _refused(vitals: Vitals) -> Iterator[Health]:
    taken = vitals.total(f"{_OWN}exports_total") or 0.0
    refused = vitals.by(f"{_OWN}refused_exports_total", "reason")
    yield Health(
        what="Exports taken",
        state=State.HEALTHY if taken else State.NO_TRAFFIC,
        now=count(taken),
        note="since this process began",
        step="" if taken else "send something: stagewatch exporter engine --target URL",
    )
    for reason, number in sorted(refused.items(), key=lambda each: -each[1]):
        share = number / (taken + number)
        yield Health(
            what=f"Exports refused: {reason.replace('_', ' ')}",
            state=State.TICKET if share >= _NOTICEABLE else State.HEALTHY,
            now=f"{count(number)}, {percent(share)}",
            note="since this process began",
            step=_STEPS.get(reason, "look at our log, which names the sender"),
        )


def _late(vitals: Vitals) -> Iterator[Health]:
    for what, late, stored in (
        ("Late spans", "late_spans_total", "stored_spans_total"),
        ("Late points", "late_points_total", "stored_points_total"),
    ):
        number, whole = vitals.total(_OWN + late), vitals.total(_OWN + stored)
        if not whole:
            continue
        share = (number or 0.0) / whole
        noticeable = share >= _NOTICEABLE
        yield Health(
            what=what,
            state=State.TICKET if noticeable else State.HEALTHY,
            now=f"{count(number or 0)}, {percent(share)}",
            note="counted all the same, in the minutes they belong to",
            step="look at the clocks and spools of their senders" if noticeable else "",
        )


def store_lines(counted: Mapping[str, float], vitals: Vitals) -> Iterator[Health]:
    """How full it is, how long it keeps what, and how near the limit of series."""
    size, free, whole = counted.get("store_bytes"), vitals.disk_free_bytes, vitals.disk_bytes
    if size is not None:
        tight = free is not None and whole and free < _FULL_DISK * whole
        yield Health(
            what="Store",
            state=State.TICKET if tight else State.HEALTHY,
            now=bytes_text(size),
            note="" if free is None else f"{bytes_text(free)} free on its disk",
            step="give it a larger disk, or keep less: `retention`" if tight else "",
        )
    if vitals.limits is None:
        yield _elsewhere("Series", "the collector's settings are not known here")
        return
    yield _series(counted, vitals, vitals.limits)
    yield Health(
        what="Retention",
        state=State.HEALTHY,
        now=_kept(vitals.limits),
        note="tiers of histograms and numbers",
    )


def _series(counted: Mapping[str, float], vitals: Vitals, limits: Limits) -> Health:
    series = counted.get("series", 0.0)
    share = series / limits.series
    bounded = vitals.total(f"{_OWN}bounded_labels_total")
    full = share >= _NEARLY or bool(bounded)
    cut = f"; {count(bounded)} label values were given up" if bounded else ""
    return Health(
        what="Series",
        state=State.TICKET if full else State.HEALTHY,
        now=f"{count(series)} of {count(limits.series)}",
        note=f"{percent(share)}{cut}",
        step="send fewer label values (tenant, use_case, replica), or raise `collector.max_series`"
        if full
        else "",
    )


def _kept(limits: Limits) -> str:
    tiers = (f"{span(tier)} for {span(kept)}" for tier, kept in sorted(limits.tiers_kept_s.items()))
    return f"requests for {span(limits.requests_kept_s)}; {', '.join(tiers)}"


def cloudwatch_lines(reader: Reader, window: Window) -> Iterator[Health]:
    """What asking CloudWatch cost today, of how much."""
    by = ("namespace", "region")
    last = Window(since_s=max(window.since_s, window.until_s - 900), until_s=window.until_s)
    allowed = _last(reader, "cloudwatch_allowance", last, by)
    for labels, usd in _last(reader, "cloudwatch_spending", last, by).items():
        may = allowed.get(labels)
        share = usd / may if may else None
        spent = share is not None and share >= _NEARLY
        yield Health(
            what=f"CloudWatch {_owner(labels)}",
            state=State.TICKET if spent else State.HEALTHY,
            now=f"{usd:.2f} $ today",
            note="no budget set" if may is None else f"{percent(share)} of {may:.2f} $ a day",
            step="ask less often or raise `budget_usd_per_day`: cold metrics stop first"
            if spent
            else "",
        )


def _last(
    reader: Reader, metric: str, window: Window, by: tuple[str, ...]
) -> Mapping[Labels, float]:
    found = reader.numbers(metric, Selection(window=window, where=(), by=by))
    return {each.labels: each.points[-1].last for each in found}


def _owner(labels: Labels) -> str:
    names = ("service", "replica", "node", "namespace", "region")
    return " ".join(value for name in names if (value := value_of(labels, name))) or "a sidecar"


def _named(names: Iterator[str]) -> str:
    listed = [name for name in names if name]
    shown = ", ".join(name[:40] for name in listed[:4])
    return f"{shown} and {len(listed) - 4} more" if len(listed) > 4 else shown


def _elsewhere(what: str, step: str) -> Health:
    return Health(what=what, state=State.NOT_OBSERVED, now="not known here", step=step)
