"""One request, joined from the legs that its spans describe.

A leg is what one process saw of a request: the client, the engine, or in a disaggregated fleet
the prefill engine and the decode engine. Legs of one trace make one request, in any order of
arrival. Each measured value of a request is published once, by the first set of legs that can tell
it: adding a leg only adds values (`observations` is monotone), so that nothing published is ever
taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from domain.labels import Labels

__all__ = [
    "SERVER_STAGES",
    "Leg",
    "LegKind",
    "Observation",
    "Outcome",
    "Request",
    "Stage",
    "join",
    "observations",
]

T = TypeVar("T", int, float)

SECOND_NS = 1_000_000_000
CLOCK_TOLERANCE_S = 0.001
"""Two clocks that tick at slightly different speeds may disagree by this much on one duration."""


class Stage(StrEnum):
    """Where a request spends its time, in the order it spends it."""

    NETWORK = "network"
    OVERHEAD = "overhead"
    QUEUE = "queue"
    PREFILL = "prefill"
    KV_TRANSFER = "kv_transfer"
    DECODE = "decode"


SERVER_STAGES = tuple(stage for stage in Stage if stage is not Stage.NETWORK)


class LegKind(StrEnum):
    """Who saw it: the user's side, a whole engine, or one half of a disaggregated pair."""

    CLIENT = "client"
    SERVER = "server"
    PREFILL = "prefill"
    DECODE = "decode"


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    FAILED = "failed"  # an error, a refusal under load, a stream cut off: bad for every objective
    CANCELLED = "cancelled"  # the client hung up: excluded from objectives, and counted
    REJECTED = "rejected"  # the request itself was wrong (HTTP 4xx): excluded, and counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What one span says. None means that the span does not say it; it never means zero."""

    trace_id: bytes
    span_id: bytes
    kind: LegKind
    labels: Labels
    start_at_ns: int
    end_at_ns: int
    outcome: Outcome = Outcome.OK
    finish_reason: str = ""
    ttft_s: float | None = None
    e2e_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    itl_max_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.end_at_ns < self.start_at_ns:
            raise ValueError("a span must not end before it starts")
        for name in ("ttft_s", "e2e_s", "queue_s", "prefill_s", "decode_s", "itl_max_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite duration, not {value}")

    @property
    def tpot_s(self) -> float | None:
        """Decode time per gap, or None: a one-token answer has no gaps."""
        gaps = (self.output_tokens or 0) - 1
        return self.decode_s / gaps if gaps > 0 and self.decode_s is not None else None

    @property
    def overhead_s(self) -> float | None:
        """What queue, prefill and decode leave unexplained of the leg's E2E.

        None where a part is missing or the parts exceed the whole beyond the clocks' tolerance.
        """
        parts = (self.queue_s, self.prefill_s, self.decode_s)
        if self.e2e_s is None or any(part is None for part in parts):
            return None
        return _difference_s(self.e2e_s, sum(part for part in parts if part is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One value of one metric, whose it is, and the instant it belongs to."""

    metric: str
    labels: Labels
    at_ns: int
    value_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that is known of one request. `ttft_s` and `e2e_s` are the server's."""

    trace_id: bytes
    labels: Labels
    start_at_ns: int
    end_at_ns: int
    outcome: Outcome
    finish_reason: str = ""
    client_ttft_s: float | None = None
    client_e2e_s: float | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    tpot_s: float | None = None
    itl_max_s: float | None = None
    network_s: float | None = None
    overhead_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    kv_transfer_s: float | None = None
    decode_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def stage_s(self) -> dict[Stage, float | None]:
        """Seconds in each stage. The server's stages sum to `e2e_s` where all are known."""
        return {
            Stage.NETWORK: self.network_s,
            Stage.OVERHEAD: self.overhead_s,
            Stage.QUEUE: self.queue_s,
            Stage.PREFILL: self.prefill_s,
            Stage.KV_TRANSFER: self.kv_transfer_s,
            Stage.DECODE: self.decode_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """The legs of one trace by kind; of several legs of one kind the one that started first."""

    client: Leg | None = None
    server: Leg | None = None
    prefill: Leg | None = None
    decode: Leg | None = None

    @property
    def disaggregated(self) -> bool:
        return self.prefill is not None and self.decode is not None

    @property
    def main(self) -> Leg:
        """The leg whose labels name the request: where its answer came from."""
        leg = self.server or self.decode or self.prefill or self.client
        if leg is None:
            raise ValueError("a request has at least one leg")
        return leg

    @property
    def ttft_s(self) -> float | None:
        """Arrival at the first engine to the first token of the last one."""
        if self.server is not None:
            return self.server.ttft_s
        if self.prefill is None or self.decode is None or self.decode.ttft_s is None:
            return None
        lead_s = (self.decode.start_at_ns - self.prefill.start_at_ns) / SECOND_NS
        return lead_s + self.decode.ttft_s if lead_s >= 0 else None

    @property
    def e2e_s(self) -> float | None:
        if self.server is not None:
            return self.server.e2e_s
        if self.prefill is None or self.decode is None or self.decode.e2e_s is None:
            return None
        lead_s = (self.decode.start_at_ns - self.prefill.start_at_ns) / SECOND_NS
        return lead_s + self.decode.e2e_s if lead_s >= 0 else None

    @property
    def queue_s(self) -> float | None:
        if self.server is not None:
            return self.server.queue_s
        if self.prefill is None or self.decode is None:
            return None
        return _sum_s(self.prefill.queue_s, self.decode.queue_s)

    @property
    def kv_transfer_s(self) -> float | None:
        """End of the prefill leg to the first token, less the decode engine's queue.

        None where the legs overlap: a negative piece is not a duration.
        """
        if self.prefill is None or self.decode is None or self.decode.ttft_s is None:
            return None
        gap_s = (self.decode.start_at_ns - self.prefill.end_at_ns) / SECOND_NS
        handed_over_s = gap_s + self.decode.ttft_s - (self.decode.queue_s or 0.0)
        return handed_over_s if gap_s >= 0 and handed_over_s >= 0 else None

    @property
    def overhead_s(self) -> float | None:
        if self.server is not None:
            return self.server.overhead_s
        if self.prefill is None or self.decode is None or self.e2e_s is None:
            return None
        parts = _sum_s(
            self.queue_s, self.prefill.prefill_s, self.kv_transfer_s, self.decode.decode_s
        )
        return None if parts is None else _difference_s(self.e2e_s, parts)

    @property
    def network_s(self) -> float | None:
        """The client's TTFT minus ours: two durations, so the clocks need not agree."""
        if self.client is None or self.client.ttft_s is None or self.ttft_s is None:
            return None
        return _difference_s(self.client.ttft_s, self.ttft_s)


def join(legs: Sequence[Leg]) -> Request:
    """The request that these legs of one trace describe."""
    joined = _joined(legs)
    client, decoding = joined.client, joined.server or joined.decode
    filling = joined.server or joined.prefill
    return Request(
        trace_id=joined.main.trace_id,
        labels=joined.main.labels,
        start_at_ns=min(leg.start_at_ns for leg in legs),
        end_at_ns=max(leg.end_at_ns for leg in legs),
        outcome=_outcome(legs),
        finish_reason=next((leg.finish_reason for leg in legs if leg.finish_reason), ""),
        client_ttft_s=client.ttft_s if client else None,
        client_e2e_s=client.e2e_s if client else None,
        ttft_s=joined.ttft_s,
        e2e_s=joined.e2e_s,
        tpot_s=decoding.tpot_s if decoding else None,
        itl_max_s=_first(client and client.itl_max_s, decoding and decoding.itl_max_s),
        network_s=joined.network_s,
        overhead_s=joined.overhead_s,
        queue_s=joined.queue_s,
        prefill_s=filling.prefill_s if filling else None,
        kv_transfer_s=joined.kv_transfer_s,
        decode_s=decoding.decode_s if decoding else None,
        prompt_tokens=_first(*(leg.prompt_tokens for leg in (filling, decoding, client) if leg)),
        cached_tokens=_first(*(leg.cached_tokens for leg in (filling, decoding, client) if leg)),
        output_tokens=_first(*(leg.output_tokens for leg in (decoding, client) if leg)),
    )


def observations(legs: Sequence[Leg]) -> Iterator[Observation]:
    """Every value these legs of one trace tell; more legs tell these and more."""
    joined = _joined(legs)
    for leg in (joined.client, joined.server, joined.prefill, joined.decode):
        if leg is not None:
            yield from _of_leg(leg)
    main = joined.server or joined.decode
    if main is None:
        return
    if joined.disaggregated and joined.server is None:
        yield from _of(joined.prefill or main, ttft=joined.ttft_s)
        yield from _of(
            main, e2e=joined.e2e_s, kv_transfer=joined.kv_transfer_s, overhead=joined.overhead_s
        )
    yield from _of(main, network=joined.network_s)


def _of_leg(leg: Leg) -> Iterator[Observation]:
    match leg.kind:
        case LegKind.CLIENT:
            return _of(leg, ttft=leg.ttft_s, e2e=leg.e2e_s, tpot=leg.tpot_s, itl_max=leg.itl_max_s)
        case LegKind.SERVER:
            return _of(
                leg,
                ttft=leg.ttft_s,
                e2e=leg.e2e_s,
                tpot=leg.tpot_s,
                queue=leg.queue_s,
                prefill=leg.prefill_s,
                decode=leg.decode_s,
                overhead=leg.overhead_s,
                itl_max=leg.itl_max_s,
            )
        case LegKind.PREFILL:
            return _of(leg, queue=leg.queue_s, prefill=leg.prefill_s)
        case LegKind.DECODE:
            return _of(leg, queue=leg.queue_s, decode=leg.decode_s, tpot=leg.tpot_s)


def _of(leg: Leg, **values_s: float | None) -> Iterator[Observation]:
    for metric, value_s in values_s.items():
        if value_s is not None:
            yield Observation(
                metric=metric, labels=leg.labels, at_ns=leg.end_at_ns, value_s=value_s
            )


def _joined(legs: Sequence[Leg]) -> _Joined:
    first: dict[str, Leg] = {}
    for leg in sorted(legs, key=lambda leg: (leg.start_at_ns, leg.span_id)):
        first.setdefault(leg.kind.value, leg)
    return _Joined(**first)


def _outcome(legs: Sequence[Leg]) -> Outcome:
    """The user's side knows best; of the others the worst counts."""
    told = {leg.kind: leg.outcome for leg in legs}
    if LegKind.CLIENT in told:
        return told[LegKind.CLIENT]
    order = (Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED, Outcome.OK)
    return next(outcome for outcome in order if outcome in told.values())


def _difference_s(whole_s: float, parts_s: float) -> float | None:
    rest_s = whole_s - parts_s
    return max(rest_s, 0.0) if rest_s >= -CLOCK_TOLERANCE_S else None


def _sum_s(*parts_s: float | None) -> float | None:
    known = [part for part in parts_s if part is not None]
    return sum(known) if len(known) == len(parts_s) else None


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
