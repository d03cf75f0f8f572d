"""One review of what the store knows: requests, causes, changes, failed transfers, and the trend."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from alerts.changes import changes
from alerts.ledger import Ledger
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from collector.query import Reader, Selection, Window
from collector.reader import StoreReader
from domain.errors import InputError
from domain.labels import labels_of, value_of
from review.money import Price
from review.reading import read_period
from review.shelf import Kept, Shelf
from review.weekly import Question, review
from stagewatch.config import Config
from stagewatch.review_question import open_causes, question_of, service_in

__all__ = ["gpus_of", "growth_of", "review_of_store", "shelf_of", "transfer_failures"]

Progress = Callable[[int, int, str], None]

_DAY_S: Final = 86_400
_CHANGING: Final = frozenset({"version", "deploy", "config", "rollback"})
_PAIRS_MIN: Final = 3
_GROWTH: Final = 0.5, 2.0


def review_of_store(
    config: Config,
    window: Window,
    *,
    service: str | None,
    now_s: float,
    prices: Sequence[Price] = (),
    progress: Progress | None = None,
) -> Kept:
    """Reviews a window of one service and keeps the result."""
    with _reader(config.store.data_dir) as reader:
        name = service_in(reader, service, window)
        where = labels_of({"service": name})
        period = read_period(reader, window, where=where, gpus=gpus_of(reader, window))
        if not len(period):
            raise InputError(
                f"no requests of {name!r} are kept in the period",
                where="review",
                remedy="Check the period; single requests are kept for retention.requests_s.",
            )
        causes = open_causes(reader, config, name, window.until_s)
        question = question_of(
            config, period, service=name, at_s=now_s, prices=prices, causes=causes
        )
        question = _told(question, reader, config, window, int(now_s))
    shelf = shelf_of(config)
    last = shelf.advice(name, before_s=period.since_s + period.length_s)
    return shelf.keep(review(period, replace(question, last=last), progress))


def shelf_of(config: Config) -> Shelf:
    return Shelf(config.store.data_dir / "reviews")


def gpus_of(reader: Reader, window: Window) -> dict[str, str]:
    """GPU type by replica, as in `H100` or `2×H100`, from what GPUs said on the last day."""
    since_s = max(window.since_s, window.until_s - _DAY_S)
    held: dict[str, list[str]] = {}
    for gpu in reader.gpus(Window(since_s=since_s, until_s=window.until_s)).gpus:
        for replica in {value_of(labels, "replica") for labels in gpu.serves} - {""}:
            held.setdefault(replica, []).append(gpu.name)
    return {replica: _type_of(names) for replica, names in held.items() if all(names)}


def _type_of(names: Sequence[str]) -> str:
    counted = sorted(Counter(names).items())
    return " + ".join(name if count == 1 else f"{count}×{name}" for name, count in counted)


def growth_of(reader: Reader, service: str, window: Window) -> float | None:
    """Traffic against the same weekday a week before: the median of the days that both weeks have."""
    whole = Window(since_s=window.since_s - 7 * _DAY_S, until_s=window.until_s)
    where = labels_of({"service": service})
    counts: dict[int, int] = {}
    for series in reader.latency("ttft", Selection(window=whole, where=where, step_s=_DAY_S)):
        for point in series.points:
            counts[point.since_s] = point.distribution.n + point.failed
    ratios = [
        count / counts[at_s - 7 * _DAY_S]
        for at_s, count in counts.items()
        if at_s >= window.since_s and counts.get(at_s - 7 * _DAY_S, 0) > 0
    ]
    if len(ratios) < _PAIRS_MIN:
        return None
    return min(max(statistics.median(ratios), _GROWTH[0]), _GROWTH[1])


def transfer_failures(reader: Reader, service: str, window: Window) -> int | None:
    """Of KV caches that were handed over, how many failed; None where no engine counts it."""
    asked = Selection(window=window, where=labels_of({"service": service}))
    told = [
        point.value
        for each in reader.numbers("kv_transfers_failed", asked)
        for point in each.points
    ]
    return round(sum(told)) if told else None


def _told(
    question: Question, reader: Reader, config: Config, window: Window, now_s: int
) -> Question:
    """What single requests do not tell."""
    service = question.service
    growth = config.review.growth_weekly or growth_of(reader, service, window) or 1.0
    return replace(
        question,
        rails=replace(question.rails, growth_weekly=growth),
        changes=tuple(_changes(reader, config, service, window, now_s)),
        transfer_failures=transfer_failures(reader, service, window),
        kept_since_s=float(now_s - config.retention.requests_s),
    )


def _changes(
    reader: Reader, config: Config, service: str, window: Window, now_s: int
) -> Iterator[str]:
    """Deploys and versions within the period: two fleets are not one."""
    state = open_state(config.alerting.state_location(config.store.data_dir))
    where = labels_of({"service": service})
    try:
        ledger: Ledger = SqlLedger(state)
        for each in changes(reader, ledger, window, where=where, now_s=now_s):
            if each.kind in _CHANGING:
                yield each.title
    finally:
        state.dispose()


@contextmanager
def _reader(data_dir: Path) -> Iterator[StoreReader]:
    reader = StoreReader(data_dir)
    try:
        yield reader
    finally:
        reader.close()
