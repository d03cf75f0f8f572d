"""Signals of one service, asked of the query door once; what takes longer than allowed stays unasked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alerts.change import Change
from alerts.diagnosis import clients, endpoints, engines, latencies, lifecycle, requests, week
from alerts.diagnosis.cards import cards_of
from alerts.diagnosis.case import Case
from alerts.diagnosis.promises import Promised
from alerts.diagnosis.rule import When
from alerts.diagnosis.signals import Signal, Signals
from alerts.diagnosis.windows import Looked
from collector.query import Reader, Stages
from domain.errors import StagewatchError

__all__ = ["QUESTIONS", "TOO_LATE", "Gathered", "Question", "gather"]

_LOG = logging.getLogger(__name__)
_NOT_NOW = {
    When.SLOW: "asked only while something is slow",
    When.CALM: "asked only while nothing is wrong",
}
S = Signal

TOO_LATE = "not asked: it took too long"
"""Why a signal is absent that nobody had the time to ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The signals, and the breakdown of stages now and before."""

    signals: Signals
    now: Stages | None
    before: Stages | None


@dataclass(frozen=True, slots=True)
class Question:
    """A part of the case, the signals it can bring, and when it is worth its time.

    `first`: asked however late it is, because nothing can be said without it.
    """

    ask: Callable[[Case], None]
    brings: tuple[Signal, ...]
    when: When = When.ALWAYS
    first: bool = False


def _ask_cards(case: Case) -> None:
    if not case.reader.label_values("gpu_uuid", case.now):
        return  # why: a fleet without a GPU exporter pays nothing for it
    case.cards = cards_of(case.reader, case.where, case.now, case.looked.before)
    case.numbers |= dict(case.cards.numbers)
    case.places |= dict(case.cards.places)


QUESTIONS = (
    Question(latencies.ask_stages, (S.STAGE_SECONDS, S.POOL_SHAPE, S.ABORTED), first=True),
    Question(
        latencies.ask_latencies,
        (
            *(S.REQUESTS, S.TTFT_P50, S.TTFT_P99, S.TTFT_MEAN, S.E2E_P50, S.ITL_P99, S.NETWORK_P50),
            *(S.QUEUE_P95, S.QUEUE_P99, S.PREFILL_P95, S.HANDOVER_P50, S.SERVED_MEAN, S.RATE),
            *(S.SERVICE_TIME, S.ENGINE_TTFT, S.ENGINE_ITL, S.OUTPUT_MEAN, S.PROMPT_TOKENS),
            *(
                S.PREEMPTIONS,
                S.PREEMPTED_MINUTES,
                S.PREFIX_HITS,
                S.TRANSFERS_FAILED,
                S.TTFT_PROMISE,
                S.ITL_PROMISE,
            ),
        ),
        first=True,
    ),
    Question(
        engines.ask_levels,
        (
            *(S.ARRIVALS, S.IN_FLIGHT, S.WAITING, S.WAITING_BY, S.RUNNING_BY, S.RUNNING_P50),
            *(S.INSTANCES, S.STREAMS, S.KV_USAGE, S.DECODE_KV, S.STRANDED_KV, S.PREFILL_LOAD),
        ),
        first=True,
    ),
    Question(latencies.ask_conditions, (S.STOOD_STILL,), first=True),
    Question(latencies.ask_tokens, (S.SPEED,), first=True),
    Question(
        clients.ask_clients,
        (S.NETWORK_BY_REGION, S.CLIENT_E2E_MEAN, S.CLIENT_TTFT, S.CLIENT_ITL),
    ),
    Question(clients.ask_reported, (S.HOPS, S.CHUNKS, S.BYTE_RATE)),
    Question(
        _ask_cards,
        (S.THROTTLED, S.XIDS, S.GPU_ACTIVE, S.GPU_BUSY, S.CLOCK_SHARE, S.MEMORY_SHARE),
    ),
    Question(endpoints.ask_endpoints, (S.QUOTA_COUNT, S.PROVIDER_TAIL)),
    Question(engines.ask_batches, (S.IN_FLIGHT_SPREAD,), When.SLOW),
    Question(
        requests.ask_requests,
        (S.OUTPUT_P50, S.ABORTED, S.LAST_GAPS, S.THROTTLE_EFFECT, S.SPEED),
    ),
    Question(clients.ask_probes, (S.PROBE_LUMPS, S.QUOTA_SHARE)),
    Question(engines.ask_configuration, (S.SLOTS, S.PROFILE)),
    Question(engines.ask_cpu, (S.CPU_CORE,), When.SLOW),
    Question(lifecycle.ask_ages, (S.AGES, S.COLD_TTFT, S.STARTED_LATE), When.SLOW),
    Question(lifecycle.ask_ends, (S.ENDED,)),
    Question(lifecycle.ask_memory, (S.PAGED,), When.SLOW),
    Question(requests.ask_lengths, (S.LONG_PROMPT_SHARE,), When.SLOW),
    Question(endpoints.ask_knee, (S.PROVIDER_KNEE,), When.SLOW),
    Question(week.ask_load, (S.LOAD, S.KNEE), When.SLOW),
    Question(week.ask_week, (S.LOAD_WEEK,), When.CALM),
    Question(week.ask_day, (S.COST_USE,), When.CALM),
)
"""In the order in which they are asked; what is worth most comes first."""


def gather(
    reader: Reader,
    service: str,
    looked: Looked,
    promised: Sequence[Promised] = (),
    *,
    events: Sequence[Change] | None = None,
    budget_s: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
) -> Gathered:
    """Everything there is to know within `budget_s`; a question that is begun is ended.

    One that fails costs its own signals and no other, and they say so.
    """
    case = Case(
        reader=reader,
        where=(("service", service),),
        looked=looked,
        promised=promised,
        events=events,
    )
    until_s = clock() + budget_s
    for question in QUESTIONS:
        if why := _not_asked(question, case, late=clock() > until_s):
            case.absent |= dict.fromkeys(question.brings, why)
            continue
        try:
            question.ask(case)
        except StagewatchError:
            raise  # why: a store that cannot be read answers nothing else either
        except Exception as error:  # noqa: BLE001 - why all: it is logged and named in the answer
            _LOG.exception("a part of the diagnosis of %s failed", service)
            why = f"could not be asked: {type(error).__name__}"
            case.absent |= dict.fromkeys(question.brings, why)
    case.sound()
    return Gathered(signals=_signals(case), now=case.stages, before=case.stages_before)


def _not_asked(question: Question, case: Case, *, late: bool) -> str:
    if question.when is When.SLOW and not case.slow:
        return _NOT_NOW[When.SLOW]
    if question.when is When.CALM and case.slow:
        return _NOT_NOW[When.CALM]
    return TOO_LATE if late and not question.first else ""


def _signals(case: Case) -> Signals:
    return Signals(
        numbers=case.numbers,
        before=case.before,
        places=case.places,
        places_before=case.places_before,
        slowed=case.slowed,
        speeds=case.speeds,
        stood=case.stood,
        aborted=case.aborted,
        restarted=case.restarted,
        arrived=case.arrived,
        absent=case.absent,
        baseline=case.looked.baseline,
        slow=case.slow,
        guilty=case.guilty,
        clients_wait=_clients_wait(case),
        pools={stage: worst.name for stage, worst in case.worst.items()},
        lone=frozenset(stage for stage, worst in case.worst.items() if worst.alone),
    )


def _clients_wait(case: Case) -> bool | None:
    """None where nothing was promised to them."""
    if not case.promised:
        return None
    return any(each.of_clients for each in case.looked.broken)
