"""How alerting is: judged up to when, told to whom, and watched by somebody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alerts.ledger import Standing
from dashboard.health_line import Health
from dashboard.quantity import age, count
from dashboard.theme import State
from dashboard.vitals import ReceiverState, Vitals

__all__ = ["evaluation_lines", "receiver_lines"]

_LATE_S = 300
_MOST = 20


def evaluation_lines(standings: Sequence[Standing], vitals: Vitals, now_s: int) -> Iterator[Health]:
    """How far behind the evaluation is, and what troubles it."""
    if vitals.problem:
        yield Health(
            what="This process",
            state=State.PAGE,
            now=vitals.problem[:300],
            step="look at our log; nothing is judged or stored until it is mended",
        )
    if not standings:
        yield Health(
            what="Evaluation",
            state=State.NO_TRAFFIC,
            now="nothing is promised",
            step="write a promise: docs/write-an-objective.md",
        )
        return
    lag_s = now_s - min(each.evaluated_at_s for each in standings)
    late = lag_s > _LATE_S
    yield Health(
        what="Evaluation",
        state=State.PAGE if late else State.HEALTHY,
        now=f"{age(lag_s)} behind",
        note=_whose(vitals, len(standings)),
        step="look whether an alerting process runs and leads: /readyz says what keeps it"
        if late
        else "",
        word="late" if late else "",
    )
    for each in [one for one in standings if one.trouble][:_MOST]:
        yield Health(
            what=each.objective.name,
            state=State.TICKET,
            now=each.trouble[:300],
            step="mend the promise, or what it asks of the store",
            word="not judged",
        )


def receiver_lines(vitals: Vitals, now_s: int) -> Iterator[Health]:
    """One a receiver, and the dead man's switch over all of it."""
    for each in vitals.receivers[:_MOST]:
        yield _receiver(each, now_s)
    if vitals.known and not vitals.receivers:
        yield Health(
            what="Receivers",
            state=State.NO_TRAFFIC,
            now="nobody was ever told",
            note="or there was nothing to tell",
            step="try one: stagewatch alerts test-receiver --receiver NAME",
        )
    if vitals.evaluates:
        yield _heartbeat(vitals.heartbeat)


def _whose(vitals: Vitals, promises: int) -> str:
    told = f"{count(promises)} promises"
    if not vitals.evaluates:
        return f"{told}, judged by another process"
    if vitals.leads is False:
        return f"{told}; another process leads, this one stands by"
    return told


def _receiver(receiver: ReceiverState, now_s: int) -> Health:
    since_s, told_s = receiver.waiting_since_s, receiver.delivered_at_s
    waits = "nothing waits"
    if receiver.waiting:
        waits = f"{count(receiver.waiting)} wait"
        waits += "" if since_s is None else f", the oldest for {age(now_s - since_s)}"
    told = "never told" if told_s is None else f"last told {age(now_s - told_s)} ago"
    return Health(
        what=f"Receiver {receiver.name}",
        state=State.PAGE if receiver.failing else State.HEALTHY,
        now=waits,
        note="; ".join(
            [told, receiver.detail[:200]] if receiver.failing and receiver.detail else [told]
        ),
        step=f"try it: stagewatch alerts test-receiver --receiver {receiver.name[:60]}"
        if receiver.failing
        else "",
        word="cannot be told" if receiver.failing else "",
    )


def _heartbeat(heartbeat: str | None) -> Health:
    if heartbeat is None:
        return Health(
            what="Heartbeat",
            state=State.NO_TRAFFIC,
            now="none is sent",
            note="nobody notices when Stagewatch itself stops",
            step="set `alerting.heartbeat.url` to a dead man's switch",
        )
    return Health(
        what="Heartbeat",
        state=State.PAGE if heartbeat else State.HEALTHY,
        now=heartbeat[:300] or "gets through",
        step="look at its address, and at what is held back" if heartbeat else "",
    )
