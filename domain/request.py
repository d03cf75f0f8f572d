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
from itertools import product
from typing import TypeVar

from domain.labels import Labels

__all__ = [
    "JOINED_LEGS_MAX",
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

T = TypeVar("T")

SECOND_NS = 1_000_000_000
CLOCK_TOLERANCE_S = 0.001
"""Two clocks that tick at slightly different speeds may disagree by this much on one duration."""

JOINED_LEGS_MAX = 32
"""A trace of more legs is no request but somebody's loop: its legs tell only their own."""


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
        return _rest_s(self.e2e_s, _sum_s(self.queue_s, self.prefill_s, self.decode_s))


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


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both halves of a disaggregated request, read like the leg of one whole engine."""

    prefill: Leg
    decode: Leg

    @property
    def ttft_s(self) -> float | None:
        """Arrival at the prefill engine to the first token of the decode engine."""
        return _sum_s(self._lead_s, self.decode.ttft_s)

    @property
    def e2e_s(self) -> float | None:
        return _sum_s(self._lead_s, self.decode.e2e_s)

    @property
    def queue_s(self) -> float | None:
        return _sum_s(self.prefill.queue_s, self.decode.queue_s)

    @property
    def kv_transfer_s(self) -> float | None:
        """End of the prefill leg to the first token, less the decode engine's queue.

        None where the legs overlap: a negative piece is not a duration.
        """
        gap_s = (self.decode.start_at_ns - self.prefill.end_at_ns) / SECOND_NS
        if gap_s < 0 or self.decode.ttft_s is None or self.decode.queue_s is None:
            return None
        return _difference_s(gap_s + self.decode.ttft_s, self.decode.queue_s)

    @property
    def overhead_s(self) -> float | None:
        parts_s = _sum_s(
            self.queue_s, self.prefill.prefill_s, self.kv_transfer_s, self.decode.decode_s
        )
        return _rest_s(self.e2e_s, parts_s)

    @property
    def fits(self) -> bool:
        """One prompt, prefilled first: a trace may hold many calls, each with a longer prompt.

        why one token of difference: some routers hand the first token over with the prompt.
        """
        prompts = self.prefill.prompt_tokens, self.decode.prompt_tokens
        same = prompts[0] is None or prompts[1] is None or abs(prompts[0] - prompts[1]) <= 1
        return same and self._lead_s >= 0

    @property
    def _lead_s(self) -> float:
        return (self.decode.start_at_ns - self.prefill.start_at_ns) / SECOND_NS


def join(legs: Sequence[Leg]) -> Request:
    """The request that these legs of one trace describe; of one kind, the leg that started first.

    A whole engine's leg speaks before a pair's halves.
    """
    kinds = _by_kind(legs)
    client, server = _first(*kinds[LegKind.CLIENT]), _first(*kinds[LegKind.SERVER])
    pair = _first(*_pairs(kinds))
    engine = server or pair
    filling = server or (pair.prefill if pair else _first(*kinds[LegKind.PREFILL]))
    decoding = server or (pair.decode if pair else _first(*kinds[LegKind.DECODE]))
    main = decoding or filling or client
    if main is None:
        raise ValueError("a request has at least one leg")
    # why not the prefill half: it always ends after one token
    answering = [leg for leg in (decoding, client) if leg]
    return Request(
        trace_id=main.trace_id,
        labels=main.labels,
        start_at_ns=min(leg.start_at_ns for leg in legs),
        end_at_ns=max(leg.end_at_ns for leg in legs),
        outcome=_outcome(legs),
        finish_reason=next((leg.finish_reason for leg in answering if leg.finish_reason), ""),
        client_ttft_s=client.ttft_s if client else None,
        client_e2e_s=client.e2e_s if client else None,
        ttft_s=engine.ttft_s if engine else None,
        e2e_s=engine.e2e_s if engine else None,
        tpot_s=decoding.tpot_s if decoding else None,
        itl_max_s=_first(*(leg.itl_max_s for leg in reversed(answering))),
        network_s=_network_s(client, engine) if client and engine else None,
        overhead_s=engine.overhead_s if engine else None,
        queue_s=engine.queue_s if engine else None,
        prefill_s=filling.prefill_s if filling else None,
        kv_transfer_s=pair.kv_transfer_s if pair and not server else None,
        decode_s=decoding.decode_s if decoding else None,
        prompt_tokens=_first(*(leg.prompt_tokens for leg in (filling, decoding, client) if leg)),
        cached_tokens=_first(*(leg.cached_tokens for leg in (filling, decoding, client) if leg)),
        output_tokens=_first(*(leg.output_tokens for leg in answering)),
    )


def observations(legs: Sequence[Leg]) -> Iterator[Observation]:
    """Every value these legs of one trace tell; more legs tell these and more.

    Each leg tells its own; two halves that fit tell the whole; each client with each engine tells
    the network between them. Only legs that ended well tell anything: a failed one is bad by every
    objective however fast it was, a cancelled or rejected one is in none; both are counted instead.
    """
    told = [leg for leg in legs if leg.outcome is Outcome.OK]
    for leg in told:
        yield from _of_leg(leg)
    if not 2 <= len(told) <= JOINED_LEGS_MAX:
        return
    kinds = _by_kind(told)
    pairs = _pairs(kinds)
    for pair in pairs:
        yield from _of(pair.prefill, ttft=pair.ttft_s)
        yield from _of(
            pair.decode,
            e2e=pair.e2e_s,
            kv_transfer=pair.kv_transfer_s,
            overhead=pair.overhead_s,
        )
    for client in kinds[LegKind.CLIENT]:
        for server in kinds[LegKind.SERVER]:
            yield from _of(server, network=_network_s(client, server))
        for pair in pairs:
            yield from _of(pair.decode, network=_network_s(client, pair))


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


def _by_kind(legs: Sequence[Leg]) -> dict[LegKind, list[Leg]]:
    """Each kind's legs, by start."""
    kinds: dict[LegKind, list[Leg]] = {kind: [] for kind in LegKind}
    for leg in sorted(legs, key=lambda leg: (leg.start_at_ns, leg.span_id)):
        kinds[leg.kind].append(leg)
    return kinds


def _pairs(kinds: dict[LegKind, list[Leg]]) -> list[_Pair]:
    prefills, decodes = kinds[LegKind.PREFILL], kinds[LegKind.DECODE]
    every = product(prefills[:JOINED_LEGS_MAX], decodes[:JOINED_LEGS_MAX])
    return [pair for halves in every if (pair := _Pair(*halves)).fits]


def _network_s(client: Leg, engine: Leg | _Pair) -> float | None:
    """The client's TTFT minus the engine's: two durations, so the clocks need not agree."""
    return _rest_s(client.ttft_s, engine.ttft_s)


def _outcome(legs: Sequence[Leg]) -> Outcome:
    """The user's side knows best; of several the worst counts."""
    clients = [leg.outcome for leg in legs if leg.kind is LegKind.CLIENT]
    told = clients or [leg.outcome for leg in legs]
    order = (Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED, Outcome.OK)
    return next(outcome for outcome in order if outcome in told)


def _rest_s(whole_s: float | None, parts_s: float | None) -> float | None:
    return None if whole_s is None or parts_s is None else _difference_s(whole_s, parts_s)


def _difference_s(whole_s: float, parts_s: float) -> float | None:
    rest_s = whole_s - parts_s
    return max(rest_s, 0.0) if rest_s >= -CLOCK_TOLERANCE_S else None


def _sum_s(*parts_s: float | None) -> float | None:
    known = [part for part in parts_s if part is not None]
    return sum(known) if len(known) == len(parts_s) else None


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
