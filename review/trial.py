"""Splits tried on one period: the current one first, against which all others are set.

The whole period is replayed once per split. Stress and parameters are tried on the busiest stretch of
each day where a period is long; the rest of the day keeps what it had, for it has room.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.errors import InputError
from review.alternatives import one_less
from review.calibration import calibrate
from review.gate import off_by
from review.load import Load, louder, some, with_hit_rate
from review.loads import Loads, loads_of, worker_loads
from review.money import Price, money_of
from review.period import Period
from review.rails import Rails
from review.replay import Replay
from review.scores import Day, Promise, Score, days_of, good_of, score_of
from review.simulation import simulate
from review.split import Split
from review.steps import Model
from review.stretches import busiest
from review.triggers import Signals
from review.uncertainty import Sureness, sureness
from review.verdict import Alternative, Flag

__all__ = ["Trial"]

_STRESS_REQUESTS: Final = 250_000
_FEWER_HITS: Final = 0.8
_OVERLOADED_S: Final = 60.0
_FULL: Final = 0.9
_DAY_S: Final = 86_400.0

Mask = NDArray[np.bool_]


class Trial:
    """One period and one model. Made, it has replayed the current split."""

    def __init__(
        self,
        period: Period,
        load: Load,
        split: Split,
        model: Model,
        *,
        promise: Promise,
        rails: Rails,
        prices: Sequence[Price],
        seed: int = 0,
    ) -> None:
        self._split, self._model, self._promise = split, model, promise
        self._rails, self._prices, self._seed = rails, tuple(prices), seed
        self._period, self._load, self.notes = _replayable(period, load, rails)
        self._days = max(int(np.ceil(load.length_s / _DAY_S)), 1)
        self._day = self._period.days
        self._busy = busiest(self._load, self._day, _STRESS_REQUESTS)
        self._other_models = self._refitted()
        served = self._period.served
        replay = self._run(self._load, split)
        self.interpreted = replay.interpreted
        self.observed = self._score(self._period, self._period, served)
        self.replayed = self._score(replay, replay, served)
        self._first_s = replay.first_s
        lasts_s = (replay.last_s - replay.first_s)[served]
        self.generation_p99_s = float(np.quantile(lasts_s, 0.99)) if len(lasts_s) else None
        self._offset, self._error = self._replay_error()
        self._base_days: tuple[Day, ...] = ()
        self.loads = self._loads(replay, split)
        self._replay_run_time = _run_time(replay)
        self._held = max(replay.prefill_held_max, default=0.0)
        self.current = self._alternative(split, replay)

    @property
    def requests(self) -> int:
        """How many were replayed."""
        return len(self._load)

    @property
    def ideal_ttft_s(self) -> float:
        """P99 of requests that wait for nobody: prefill alone, hand-over, and a first step."""
        way = self._model.handover
        context = self._load.context_tokens
        curve = next(iter(self._model.prefill.values()))
        alone_s = curve.step_s(self._load.new_tokens, context)
        if way.by_decode and self._model.decode:
            step_s = next(iter(self._model.decode.values())).step_s(1, context)
            alone_s = alone_s + way.base_s + way.token_s * context + step_s
        return float(np.quantile(alone_s, 0.99))

    def alternative(self, split: Split) -> Alternative:
        """Replays another split."""
        return self._alternative(split, self._run(self._load, split))

    def hours(self) -> tuple[tuple[float | None, float | None], ...]:
        """P99 TTFT by hour, as seen and as replayed, of the requests that were served."""
        served = self._period.served
        hour = (self._period.arrival_s // 3600).astype(np.int64)
        starts = np.searchsorted(hour, np.arange(int(np.ceil(self._load.length_s / 3600)) + 1))
        found = []
        for low, high in itertools.pairwise(starts):
            rows = slice(low, high)
            kept = served[rows]
            pair = (self._period.first_s[rows][kept], self._first_s[rows][kept])
            found.append(
                tuple(float(np.quantile(each, 0.99)) if len(each) else None for each in pair)
            )
        return tuple((seen, said) for seen, said in found)

    def signals(self, transfer_failures: int | None) -> Signals:
        """What the rules of thumb look at."""
        served = self._period.served
        empty = not served.any()
        gap_s = (self._period.first_s - self._period.prefilled_s)[served]
        known = gap_s[np.isfinite(gap_s)]
        return Signals(
            score=self.observed,
            promise=self._promise,
            loads=self.loads,
            workers=worker_loads(self._period, self._model),
            e2e_p50_s=None if empty else float(np.median(self._period.last_s[served])),
            output_p50_tokens=None
            if empty
            else float(np.median(self._period.output_tokens[served])),
            run_time=self._replay_run_time,
            handover_p50_s=float(np.median(known)) if len(known) else None,
            hit_ratio=self._load.hit_ratio,
            blocked=self._blocked(),
            transfer_failures=transfer_failures,
        )

    def _blocked(self) -> bool:
        """Whether any prefill worker came near the end of its KV cache."""
        limits = [self._model.engine(kind).kv_tokens for kind in self._split.kinds("prefill")]
        known = [limit for limit in limits if limit is not None]
        return bool(known) and self._held > 0.9 * min(known)

    def _run(self, load: Load, split: Split, model: Model | None = None) -> Replay:
        return simulate(
            load, split, model or self._model, names=self._names(split), seed=self._seed
        )

    def _names(self, split: Split) -> list[str]:
        """Workers that exist keep their speed; new ones are as fast as usual."""
        found: list[str] = []
        for role in ("prefill", "decode"):
            for kind in dict.fromkeys(split.kinds(role)):
                own = sorted(each.name for each in self._period.workers if each.kind == kind)
                count = dict(split.counts)[kind]
                found += (own + [""] * count)[:count]
        return found

    def _good(self, told: Any) -> Mask:
        return good_of(told.first_s, told.tpot_s, self._promise)

    def _score(self, told: Any, waits: Any, rows: Mask) -> Score:
        good = self._good(told)[rows]
        return score_of(told.first_s[rows], told.tpot_s[rows], waits.start_s[rows], good)

    def _replay_error(self) -> tuple[float, float]:
        """What to add to a replayed goodput, and how far off it may be."""
        seen, said = self.observed.goodput, self.replayed.goodput
        offset = 0.0 if seen is None or said is None else seen - said
        return offset, abs(offset)

    def _alternative(self, split: Split, replay: Replay) -> Alternative:
        good = self._good(replay)
        days = days_of(good, self._day, self._days)
        self._base_days = self._base_days or days
        error = max(self._error, self._parameter_error(split, good))
        every = np.ones(len(good), bool)
        score = self._score(replay, replay, every)
        loads = self._loads(replay, split)
        stressed = self._stressed(split, good, lambda load: louder(load, self._rails.stress))
        ratio = _ratio(self.observed.ttft_p99_s, self.replayed.ttft_p99_s)
        tpot_ratio = _ratio(self.observed.tpot_p99_s, self.replayed.tpot_p99_s)
        length_s = self._load.length_s
        return Alternative(
            split=split,
            score=score,
            ttft_p99_s=_times(score.ttft_p99_s, ratio),
            ttft_p99_off=abs(ratio - 1),
            tpot_p99_s=_times(score.tpot_p99_s, tpot_ratio),
            tpot_p99_off=abs(tpot_ratio - 1),
            sureness=self._sure(days, error),
            stressed=self._sure(stressed, error),
            headroom_goodput=self._share(
                split, good, lambda load: louder(load, self._rails.headroom)
            ),
            one_less_goodput=self._one_less(split, good),
            fewer_hits_goodput=self._fewer_hits(split, good),
            grown_goodput=self._grown(split, good),
            prefill_load=loads.prefill,
            decode_load=loads.decode,
            decode_batch=replay.decode_batch,
            decode_kv_tokens=replay.decode_kv,
            money=money_of(
                split,
                self._prices,
                good_per_s=float(good.sum()) / length_s,
                good_tokens_per_s=float(self._load.output_tokens[good].sum()) / length_s,
                load=loads.by_role() if not split.merged else {"both": loads.prefill},
            ),
            flags=self._flags(split, replay, score),
        )

    def _sure(self, days: Sequence[Day], error: float) -> Sureness:
        return sureness(
            days,
            self._base_days,
            target=self._promise.target,
            offset=self._offset,
            error=error,
            draws=self._rails.bootstrap_draws,
            seed=self._seed,
        )

    def _stressed(
        self, split: Split, good: Mask, change: Callable[[Load], Load], model: Model | None = None
    ) -> tuple[Day, ...]:
        """Good requests by day where the busiest stretches are changed and the rest is as it was."""
        part = some(self._load, self._busy)
        changed = change(part)
        replay = self._run(changed, split, model)
        day = (changed.arrival_s // _DAY_S).astype(np.int64)
        busy = days_of(self._good(replay), day, self._days)
        rest = days_of(good[~self._busy], self._day[~self._busy], self._days)
        factor = len(changed) / max(len(part), 1)
        return tuple(
            Day(good=b.good + round(r.good * factor), total=b.total + round(r.total * factor))
            for b, r in zip(busy, rest, strict=True)
        )

    def _share(
        self, split: Split, good: Mask, change: Callable[[Load], Load], model: Model | None = None
    ) -> float:
        days = self._stressed(split, good, change, model)
        whole = sum(day.total for day in days)
        share = sum(day.good for day in days) / whole if whole else 0.0
        return float(np.clip(share + self._offset, 0.0, 1.0))

    def _one_less(self, split: Split, good: Mask) -> float | None:
        """The worst that the loss of one worker leaves; None where a role would have none."""
        found = [self._share(each, good, lambda load: load) for each in one_less(split)]
        return min(found) if len(found) == len(split.counts) else None

    def _fewer_hits(self, split: Split, good: Mask) -> float | None:
        if not self._load.hit_ratio:
            return None
        return self._share(split, good, lambda load: with_hit_rate(load, _FEWER_HITS))

    def _grown(self, split: Split, good: Mask) -> float | None:
        growth = self._rails.growth_weekly
        return (
            None if growth == 1.0 else self._share(split, good, lambda load: louder(load, growth))
        )

    def _refitted(self) -> list[Model]:
        """Models of single days: how much the parameters depend on which day they were fitted on."""
        days = np.unique(self._day)
        if len(days) < 2:
            return []
        chosen = days[np.linspace(0, len(days) - 1, self._rails.parameter_draws).astype(int)]
        found = []
        for day in chosen:
            part = self._period.part(self._day == day)
            try:
                found.append(calibrate(part, self._model.engines, seed=self._seed))
            except InputError:
                # why not an error: a quiet day has too few requests to fit; the whole period has not
                self.notes = (*self.notes, f"day {int(day) + 1} is too quiet for curves of its own")
        return [each for each in found if set(each.decode) == set(self._model.decode)]

    def _parameter_error(self, split: Split, good: Mask) -> float:
        if split.merged:
            return 0.0
        base = self._share(split, good, lambda load: load)
        others = [
            self._share(split, good, lambda load: load, model) for model in self._other_models
        ]
        return max((abs(each - base) for each in others), default=0.0)

    def _loads(self, replay: Replay, split: Split) -> Loads:
        held = self._load.context_tokens + self._load.output_tokens / 2
        context = float(np.average(held, weights=self._load.output_tokens))
        return loads_of(replay, split, self._model, self._promise, context)

    def _flags(self, split: Split, replay: Replay, score: Score) -> tuple[Flag, ...]:
        found = [Flag.CURRENT] if split == self._split else []
        if split.merged:
            return (*found, Flag.LOW_CONFIDENCE)
        factor = self._rails.seen_factor
        curves = [self._model.decode[kind] for kind in split.kinds("decode")]
        kv, batch = replay.decode_kv or 0.0, replay.decode_batch or 0.0
        beyond = kv > factor * max(curve.kv_max for curve in curves)
        beyond = beyond or batch > factor * max(curve.batch_max for curve in curves)
        if beyond and split != self._split:
            found.append(Flag.CANARY)
        limits = [self._model.engine(kind).kv_tokens for kind in split.kinds("decode")]
        if any(limit is not None and kv > _FULL * limit for limit in limits):
            found.append(Flag.FULL)
        if score.wait_p99_s is not None and score.wait_p99_s > _OVERLOADED_S:
            found.append(Flag.OVERLOADED)
        if None in limits:
            found.append(Flag.UNBOUNDED)
        return tuple(found)


def _replayable(period: Period, load: Load, rails: Rails) -> tuple[Period, Load, tuple[str, ...]]:
    """All of it; where nothing is compiled the busiest stretch of each day, and a note."""
    from review.compiled import INTERPRETED  # noqa: PLC0415 - brings numba

    if not INTERPRETED:
        return period, load, ()
    rows = busiest(load, period.days, rails.interpreted_requests)
    note = (
        "numba is not installed: the loops are interpreted, and"
        f" {int(rows.sum())} of {len(load)} requests were replayed, the busiest stretch of each day."
        " Install stagewatch[review]"
    )
    return period.part(rows), some(load, rows), (note,)


def _run_time(replay: Replay) -> float | None:
    decode = float(np.sum(replay.decode_busy))
    return float(np.sum(replay.prefill_busy)) / decode if decode > 0 else None


def _ratio(seen: float | None, said: float | None) -> float:
    """What to multiply a replayed time with; 1 where nothing can be compared."""
    off = off_by(seen, said)
    return 1.0 if off is None else 1.0 / (1.0 + off)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
