"""Signals of one service, asked of the query door once; what takes longer than allowed stays unasked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from alerts.blame import blame
from alerts.diagnosis import readings
from alerts.diagnosis.cards import Cards, cards_of
from alerts.diagnosis.derived import (
    arrivals,
    arrived,
    cut_short,
    of_one_pool,
    prefill_load,
    suspicious,
    typical,
)
from alerts.diagnosis.facts import Aborted, Arrived, Slowed, Stood
from alerts.diagnosis.places import token_seconds, worst_places
from alerts.diagnosis.promises import TOKEN_METRICS, Promised
from alerts.diagnosis.samples import STEP_S, samples_of
from alerts.diagnosis.signals import Places, Signal, Signals
from alerts.diagnosis.speeds import FEWEST_REQUESTS, speeds_of, throttle_effects
from alerts.diagnosis.windows import Looked
from collector.query import Numbers, Reader, Selection, Stages, Window
from domain.condition import ConditionKind, next_step, sentence
from domain.labels import Labels, value_of
from domain.leg import Outcome
from domain.request import Request, Stage

__all__ = ["Gathered", "gather"]

_MOST_REQUESTS = 1500
_SAMPLE = 150
_HELD = 0.05
_WARM_S = 300
_QUARTER_S = 900
_ONLY_IF_SLOW = (
    Signal.SPEED,
    Signal.THROTTLE_EFFECT,
    Signal.AGES,
    Signal.COLD_TTFT,
    Signal.OUTPUT_P50,
)
_TOO_LATE = "not asked: it took too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The signals, and the breakdown of stages now and before."""

    signals: Signals
    now: Stages | None
    before: Stages | None


@dataclass(slots=True)
class _Basket:
    numbers: dict[Signal, float] = field(default_factory=dict)
    before: dict[Signal, float] = field(default_factory=dict)
    places: dict[Signal, Places] = field(default_factory=dict)
    places_before: dict[Signal, Places] = field(default_factory=dict)
    absent: dict[Signal, str] = field(default_factory=dict)
    slowed: Sequence[Slowed] | None = None
    speeds: Sequence[Slowed] | None = None
    stood: Sequence[Stood] | None = None
    aborted: Sequence[Aborted] | None = None
    arrived: Sequence[Arrived] | None = None


class _Gatherer:
    """One question. Every step looks at the clock first."""

    def __init__(
        self,
        reader: Reader,
        service: str,
        looked: Looked,
        promised: Sequence[Promised],
        *,
        until_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._reader, self._looked, self._promised = reader, looked, promised
        self._where: Labels = (("service", service),)
        self._until_s, self._clock = until_s, clock
        self._basket = _Basket()
        self._suspect: bool | None = None
        self._replicas: Sequence[Stages] = ()

    def gather(self) -> Gathered:
        looked, basket = self._looked, self._basket
        now = self._stages(looked.now)
        before = self._stages(looked.before) if looked.before else None
        self._replicas = self._asked(looked.now, readings.KEYS)
        self._latencies(now, before)
        self._levels(now, before)
        self._conditions(looked.now.until_s)
        self._clients()
        cards = self._cards()
        self._endpoints()
        slow = bool(looked.broken) or bool(basket.stood)
        guilty, places = self._guilty(now, before)
        if sum(each.flow.failed or 0 for each in self._replicas) == 0 and self._replicas:
            basket.aborted = ()
        if self._suspect is False:
            basket.speeds = ()
        if slow:
            self._ages()
            self._requests(cards)
        else:
            basket.absent |= dict.fromkeys(_ONLY_IF_SLOW, "asked only while something is slow")
        signals = Signals(
            numbers=basket.numbers,
            before=basket.before,
            places=basket.places,
            places_before=basket.places_before,
            slowed=basket.slowed,
            speeds=basket.speeds,
            stood=basket.stood,
            aborted=basket.aborted,
            arrived=basket.arrived,
            absent=basket.absent,
            baseline=looked.baseline,
            slow=slow,
            guilty=guilty,
            clients_wait=any(each.of_clients for each in looked.broken) if self._promised else None,
            pools=places,
            lone=frozenset(stage for stage, place in places.items() if place in self._names()),
        )
        return Gathered(signals=signals, now=now, before=before)

    def _late(self, *signals: Signal) -> bool:
        late = self._clock() > self._until_s
        if late:
            self._basket.absent |= dict.fromkeys(signals, _TOO_LATE)
        return late

    def _asked(self, window: Window, by: tuple[str, ...] = ()) -> Sequence[Stages]:
        return self._reader.stages(Selection(window=window, where=self._where, by=by))

    def _stages(self, window: Window) -> Stages | None:
        return next(iter(self._asked(window)), None)

    def _latencies(self, now: Stages | None, before: Stages | None) -> None:
        looked, basket = self._looked, self._basket
        for stages, window, into in (
            (now, looked.now, basket.numbers),
            (before, looked.before, basket.before),
        ):
            if stages is not None and window is not None:
                into.update(readings.stage_numbers(stages))
                into.update(
                    readings.latencies_of(self._reader, self._where, window, self._promised)
                )
                into.update(readings.counts_of(self._reader, self._where, window))
        roles = {value_of(each.labels, "role") for each in self._replicas}
        if roles:
            basket.numbers[Signal.POOL_SHAPE] = float(bool(roles & {"prefill", "decode"}))

    def _levels(self, now: Stages | None, before: Stages | None) -> None:
        """Running, waiting and KV by replica; arrivals from what ended and what is still inside."""
        looked, basket = self._looked, self._basket
        levels = readings.levels_of(self._reader, self._where, looked.now)
        running, waiting = levels.get("requests_running", ()), levels.get("requests_waiting", ())
        self._flight(running, waiting)
        if kv := levels.get("kv_cache_usage"):
            usage = {value_of(each.labels, "replica"): each.points[0].high for each in kv}
            basket.places[Signal.KV_USAGE] = usage
            basket.numbers[Signal.KV_USAGE] = max(usage.values())
            self._halves(kv, running)
        if (load := prefill_load(self._replicas)) is not None:
            basket.numbers[Signal.PREFILL_LOAD] = load
        arriving = arrivals(now, running, waiting, looked.now)
        if arriving is not None:
            basket.numbers[Signal.ARRIVALS] = arriving
        if looked.before is None:
            return
        then = readings.levels_of(self._reader, self._where, looked.before)
        ran, waited = then.get("requests_running", ()), then.get("requests_waiting", ())
        then_arriving = arrivals(before, ran, waited, looked.before)
        if then_arriving is not None:
            basket.before[Signal.ARRIVALS] = then_arriving
        if ran:
            basket.before[Signal.RUNNING_P50] = typical(readings.by_replica(ran))
        if waited:
            basket.before[Signal.WAITING] = sum(readings.by_replica(waited).values())

    def _flight(self, running: Sequence[Numbers], waiting: Sequence[Numbers]) -> None:
        numbers, places = self._basket.numbers, self._basket.places
        if waits := readings.by_replica(waiting, last=True):
            numbers[Signal.WAITING] = sum(readings.by_replica(waiting).values())
            places[Signal.WAITING_BY] = of_one_pool(waiting, readings.by_replica(waiting))
            numbers[Signal.INSTANCES] = float(len(waits))
        if runs := readings.by_replica(running):
            places[Signal.RUNNING_BY] = runs
            numbers[Signal.RUNNING_P50] = typical(runs)
            numbers[Signal.IN_FLIGHT] = sum(runs.values())

    def _halves(self, kv: Sequence[Numbers], running: Sequence[Numbers]) -> None:
        """Of a split service: how full decode is, and blocks that prefill keeps for nobody."""
        basket, ran = self._basket, readings.by_replica(running)
        decode = [each.points[0].value for each in kv if value_of(each.labels, "role") == "decode"]
        if decode:
            basket.numbers[Signal.DECODE_KV] = sum(decode) / len(decode)
        prefill = {
            value_of(each.labels, "replica"): each.points[0].low
            for each in kv
            if value_of(each.labels, "role") == "prefill"
        }
        if prefill:
            basket.places[Signal.STRANDED_KV] = {
                name: held for name, held in prefill.items() if ran.get(name) == 0
            }

    def _conditions(self, at_s: int) -> None:
        found = self._reader.conditions(
            at_s,
            where=self._where,
            kinds=(ConditionKind.STALLED, ConditionKind.DOWN),
            over_within_s=_QUARTER_S,
        )
        self._basket.stood = [
            Stood(
                place=value_of(each.labels, "replica") or value_of(each.labels, "service"),
                sentence=sentence(each, at_s=at_s),
                next_step=next_step(each),
                down=each.kind is ConditionKind.DOWN,
                over=each.over,
                role=value_of(each.labels, "role"),
            )
            for each in found
        ]

    def _clients(self) -> None:
        basket, looked = self._basket, self._looked
        if self._late(Signal.NETWORK_BY_REGION, Signal.CLIENT_E2E_MEAN):
            return
        told, regions = readings.of_clients(self._reader, self._where, looked.now)
        basket.numbers |= told
        if regions:
            basket.places[Signal.NETWORK_BY_REGION] = regions
        if regions and looked.before is not None:
            _, then = readings.of_clients(self._reader, self._where, looked.before)
            basket.places_before[Signal.NETWORK_BY_REGION] = then
        lumps = self._reader.numbers(
            "buffering", Selection(window=looked.now, where=self._where, by=("region",))
        )
        if lumps:
            basket.places[Signal.PROBE_LUMPS] = {
                value_of(each.labels, "region") or "the probe": each.points[-1].last
                for each in lumps
            }

    def _cards(self) -> Cards | None:
        if self._late(Signal.THROTTLED, Signal.XIDS, Signal.GPU_ACTIVE):
            return None
        cards = cards_of(self._reader, self._where, self._looked.now)
        self._basket.numbers |= dict(cards.numbers)
        self._basket.places |= dict(cards.places)
        return cards

    def _endpoints(self) -> None:
        if self._late(Signal.QUOTA_COUNT):
            return
        service = value_of(self._where, "service")
        told = self._reader.endpoints(self._looked.now, service=service, metric="throttles")
        if told:
            self._basket.numbers[Signal.QUOTA_COUNT] = sum(
                point.statistics.get("Sum", 0.0) for each in told[:1] for point in each.points
            )

    def _guilty(
        self, now: Stages | None, before: Stages | None
    ) -> tuple[Stage | None, dict[Stage, str]]:
        """The stage that grew most of those the worst broken promise is about."""
        places = worst_places(self._replicas)
        asked = Selection(window=self._looked.now, where=self._where, by=readings.KEYS)
        tokens = {
            each.labels: mean_s
            for each in self._reader.latency("tpot", asked)
            for point in each.points[:1]
            if (mean_s := point.distribution.mean_s) is not None
        }
        self._suspect = suspicious(tokens)
        if place := token_seconds(tokens):
            places[Stage.DECODE] = place
        if not self._looked.broken:
            return None, places
        metric = self._looked.broken[0].metric
        if metric in TOKEN_METRICS:
            return Stage.DECODE, places
        found = blame(metric, now, before)
        return (found.stage if found.share is not None else None), places

    def _ages(self) -> None:
        """New replicas, and their first tokens against the others'."""
        if self._late(Signal.AGES, Signal.COLD_TTFT):
            return
        until_s = self._looked.now.until_s
        day = Window(since_s=until_s - 3600, until_s=until_s)
        mine = value_of(self._where, "service")
        told = [each for each in self._reader.freshness(day) if each.service == mine]
        begun = {
            value_of(each.labels, "replica"): (each.since_s, each.labels)
            for fresh in told
            for each in fresh.replicas
            if each.since_s is not None and value_of(each.labels, "replica")
        }
        if not begun:
            return
        oldest_s = min(since_s for since_s, _ in begun.values())
        # why: of a service that is new as a whole nobody can say who is cold
        ages = {name: float(until_s - since_s) for name, (since_s, _) in begun.items()}
        if until_s - oldest_s <= _WARM_S:
            ages = dict.fromkeys(ages, float(_WARM_S + 1))
        self._basket.places[Signal.AGES] = ages
        waits = {
            value_of(each.labels, "replica"): each.ttft.mean_s
            for each in self._replicas
            if each.ttft.mean_s is not None
        }
        if len(waits) > 1:
            self._basket.arrived = arrived(ages, waits)

    def _requests(self, cards: Cards | None) -> None:
        """Single requests are dear: as many as a suspicion needs."""
        basket = self._basket
        signals = (Signal.SPEED, Signal.THROTTLE_EFFECT, Signal.ABORTED, Signal.OUTPUT_P50)
        if self._late(*signals):
            return
        held = cards is not None and any(
            part > _HELD for part in cards.places.get(Signal.THROTTLED, {}).values()
        )
        failed = basket.numbers.get(Signal.REQUESTS, 0.0) > 0 and self._failed() > 2
        many = _MOST_REQUESTS if held or failed or self._suspect else _SAMPLE
        found = self._reader.requests(self._looked.now, where=self._where, limit=many)
        tokens = sorted(each.output_tokens for each in found if each.output_tokens)
        if tokens:
            basket.numbers[Signal.OUTPUT_P50] = float(tokens[len(tokens) // 2])
        if failed:
            basket.aborted = [cut_short(each) for each in found if each.outcome is Outcome.FAILED]
        if not self._suspect and not held:
            return
        self._compare(found, cards)

    def _names(self) -> set[str]:
        """Replicas that have others beside them."""
        pools = [value_of(each.labels, "pool") for each in self._replicas]
        return {
            value_of(each.labels, "replica")
            for each, pool in zip(self._replicas, pools, strict=True)
            if pools.count(pool) > 1
        }

    def _failed(self) -> int:
        return sum(each.flow.failed or 0 for each in self._replicas)

    def _compare(self, found: Sequence[Request], cards: Cards | None) -> None:
        basket = self._basket
        samples = samples_of(found, self._batches())
        basket.speeds = speeds_of(samples)
        if basket.speeds is None:
            told = f"{len(samples)} of {FEWEST_REQUESTS} requests at a known batch"
            basket.absent[Signal.SPEED] = told
        if cards is not None and cards.held:
            basket.slowed = throttle_effects(samples, cards.held, cards.serves)

    def _batches(self) -> dict[str, dict[int, float]]:
        """How many ran on each replica in each step; a reading holds until the next."""
        now = self._looked.now
        asked = Selection(window=now, where=self._where, by=("replica",), step_s=STEP_S)
        return {
            value_of(each.labels, "replica"): {
                point.since_s // STEP_S * STEP_S: point.value for point in each.points
            }
            for each in self._reader.numbers("requests_running", asked)
        }


def gather(
    reader: Reader,
    service: str,
    looked: Looked,
    promised: Sequence[Promised] = (),
    *,
    budget_s: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
) -> Gathered:
    """Everything there is to know within `budget_s`; a question that is begun is ended."""
    until_s = clock() + budget_s
    return _Gatherer(reader, service, looked, promised, until_s=until_s, clock=clock).gather()
