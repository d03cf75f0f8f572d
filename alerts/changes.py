"""What changed in a window: seen in the labels of telemetry, kept with the promises, or reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from alerts.change import Change
from alerts.ledger import Ledger, Standing
from alerts.silence import Silence, subject
from collector.query import Freshness, Reader, Replica, Selection, Window
from domain.gpu import Gpu
from domain.labels import Labels, labels_of, value_of
from domain.throttle import HARMFUL

__all__ = ["MOST", "changes"]

MOST = 200
"""Of one window; the oldest are left out."""

_VERSIONS = ("model_version", "model", "engine")
_MOST_STEPS = 60
_FINEST_S = 10
_SETTLING_S = 120
_GONE_S = 180
_UNASKED_GONE_S = 900
_HELD = 0.2
_REVISED = ("revision", "target", "reset", "maintenance", "period")
_MOST_NAMES = 3


def changes(
    reader: Reader, ledger: Ledger, window: Window, *, where: Labels = (), now_s: int
) -> list[Change]:
    """Of what the labels ask for, oldest first. Instants seen in telemetry are good to a step."""
    standings = [each for each in ledger.standings(spark_s=0) if _touches(each, where)]
    found = [
        *_versions(reader, window, where),
        *_replicas(reader, window, where),
        *_throttling(reader, window, where),
        *_of_promises(ledger, standings),
        *_silences(ledger.silences(at_s=now_s), standings),
        *_incidents(ledger, standings),
        *ledger.told_changes(window.since_s, window.until_s, where=where),
    ]
    inside = [each for each in found if window.since_s <= each.at_s < window.until_s]
    return sorted(inside, key=lambda each: (each.at_s, each.kind, each.title))[-MOST:]


def _touches(standing: Standing, where: Labels) -> bool:
    """Whether a promise and a page may be about the same requests."""
    own = dict(standing.objective.indicator.where)
    return all(own.get(name, value) == value for name, value in where)


def _versions(reader: Reader, window: Window, where: Labels) -> Iterator[Change]:
    """What a label is called from a step on that it was not called at first: a deploy."""
    for name in _VERSIONS:
        by = ("service", name)
        if len(reader.latency("ttft", Selection(window=window, where=where, by=by))) < 2:
            continue
        step = _step_s(window)
        asked = Selection(window=window, where=where, by=by, step_s=step)
        firsts: dict[str, dict[str, int]] = defaultdict(dict)
        for each in reader.latency("ttft", asked):
            value = value_of(each.labels, name)
            if value and each.points:
                firsts[value_of(each.labels, "service")][value] = each.points[0].since_s
        for service, begun in firsts.items():
            first_s = min(begun.values())
            for value, at_s in begun.items():
                if at_s > max(first_s, window.since_s + step):
                    labels = labels_of({"service": service, name: value})
                    title = f"{name.replace('_', ' ')} {value} first seen"
                    yield Change(at_s=at_s, kind="version", title=title, labels=labels)


def _replicas(reader: Reader, window: Window, where: Labels) -> Iterator[Change]:
    """Replicas that came or went while their service went on; together where at one minute."""
    seen: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for each in reader.freshness(window, service=value_of(where, "service")):
        for replica in each.replicas:
            name = value_of(replica.labels, "replica")
            if not name or not _is_of(replica, where):
                continue
            for at_s, kind in _came_and_went(replica, each):
                seen[at_s // 60 * 60, kind, each.service].append(name)
    for (at_s, kind, service), names in seen.items():
        word = "first seen" if kind == "replica appeared" else "last seen"
        title = f"{_listed('replica', names)} {word}"
        yield Change(at_s=at_s, kind=kind, title=title, labels=labels_of({"service": service}))


def _came_and_went(replica: Replica, service: Freshness) -> Iterator[tuple[int, str]]:
    came_s, begun_s = replica.since_s, service.since_s
    if came_s is not None and begun_s is not None and came_s >= begun_s + _SETTLING_S:
        yield came_s, "replica appeared"
    gone_s = _UNASKED_GONE_S if replica.up is None else _GONE_S
    newest_s = service.newest_at_s
    if newest_s is not None and replica.last_seen_at_s <= newest_s - gone_s:
        yield replica.last_seen_at_s, "replica vanished"


def _is_of(replica: Replica, where: Labels) -> bool:
    own = dict(replica.labels)
    return all(own.get(name, value) == value for name, value in where)


def _throttling(reader: Reader, window: Window, where: Labels) -> Iterator[Change]:
    """When clocks began to be held down for a fifth of a step or more."""
    step = _step_s(window)
    begun: dict[tuple[int, str], list[str]] = defaultdict(list)
    for gpu in reader.gpus(window, where=where, step_s=step).gpus:
        for place, cause in _begins(gpu):
            at_s = window.since_s // step * step + place * step
            begun[max(at_s, window.since_s), cause].append(f"{gpu.node} {gpu.uuid[-8:]}".strip())
    for (at_s, cause), names in begun.items():
        title = f"{_listed('GPU', names)} held down by {cause.replace('_', ' ')}"
        yield Change(at_s=at_s, kind="throttling", title=title, labels=where)


def _begins(gpu: Gpu) -> Iterator[tuple[int, str]]:
    for cause in HARMFUL:
        before = False
        for place, moment in enumerate(gpu.moments):
            held = moment.held.get(cause, 0.0) >= _HELD
            if held and not before:
                yield place, cause
            before = held


def _of_promises(ledger: Ledger, standings: Iterable[Standing]) -> Iterator[Change]:
    for standing in standings:
        for each in ledger.history(standing.id):
            if each.event in _REVISED:
                yield Change(
                    at_s=each.at_s,
                    kind="promise",
                    title=f"{standing.objective.name}, {each.event}: {each.text}",
                    author=each.author,
                    labels=standing.objective.indicator.where,
                )


def _silences(silences: Iterable[Silence], standings: Sequence[Standing]) -> Iterator[Change]:
    """Those that keep a promise of these quiet."""
    for silence in silences:
        covers = [each for each in standings if _covers(silence, each)]
        if covers:
            until_s = silence.ends_at_s if silence.ended_at_s is None else silence.ended_at_s
            yield Change(
                at_s=silence.starts_at_s,
                until_s=until_s,
                kind="silence",
                title=f"silenced: {silence.reason}",
                author=silence.author,
                id=silence.id,
            )


def _covers(silence: Silence, standing: Standing) -> bool:
    where = standing.objective.indicator.where
    return any(
        silence.covers(subject(where, objective_id=standing.id, severity=each, tier=each))
        for each in ("page", "ticket")
    )


def _incidents(ledger: Ledger, standings: Iterable[Standing]) -> Iterator[Change]:
    known = {each.id for each in standings}
    for record in ledger.alerts(limit=MOST):
        if record.objective_id not in known:
            continue
        word = "pages" if record.severity == "page" else "has a ticket"
        yield Change(
            at_s=record.started_at_s,
            until_s=record.resolved_at_s,
            kind="incident",
            title=f"{record.objective_name} {word}",
            id=record.id,
        )


def _listed(what: str, names: Sequence[str]) -> str:
    """As in "replica a", or "5 replicas a, b, c, …"."""
    if len(names) == 1:
        return f"{what} {names[0]}"
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"{len(names)} {what}s {', '.join(sorted(names)[:_MOST_NAMES])}{more}"


def _step_s(window: Window) -> int:
    length_s = window.until_s - window.since_s
    return max(-(-length_s // _MOST_STEPS // _FINEST_S) * _FINEST_S, _FINEST_S)
