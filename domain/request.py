"""One request, joined from the legs that its spans describe.

A leg is what one process saw of a request: the client, a frontend, the engine, or in a
disaggregated fleet the prefill engine and the decode engine. Legs of one call make one request, in
any order of arrival (`domain.calls`); what they tell of it is published once (`domain.telling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from domain.calls import calls
from domain.family import Family
from domain.labels import Labels, labels_of
from domain.leg import CLOCK_TOLERANCE_S, ENGINES, Leg, LegKind, Outcome, first, rest_s, sum_s
from domain.pair import Cut, Pair
from domain.telling import JOINED_LEGS_MAX, Observation, cut_of, observations, wholes

__all__ = [
    "CLOCK_TOLERANCE_S",
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
    "requests_of",
]


class Stage(StrEnum):
    """Where a request spends its time, in the order it spends it."""

    NETWORK = "network"
    OVERHEAD = "overhead"
    QUEUE = "queue"
    PREFILL = "prefill"
    KV_TRANSFER = "kv_transfer"
    DECODE = "decode"


SERVER_STAGES = tuple(stage for stage in Stage if stage is not Stage.NETWORK)

_NOT_IN_SPANS = "not in any span"
_CLOCKS = "clocks disagree"
_OVERLAP = "legs overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that is known of one request. `ttft_s` and `e2e_s` are the server's.

    `measured_by` says whose those are: the outermost server's. `unknown` says of each stage without
    a value why. `prefilled_by`: labels of the engine that filled the prompt for another, which gave
    `labels`. A request is not `complete` while the span of somebody who surely saw it is missing.
    """

    trace_id: bytes
    labels: Labels
    start_at_ns: int
    end_at_ns: int
    outcome: Outcome
    finish_reason: str = ""
    streamed: bool | None = None
    complete: bool = True
    measured_by: str = ""  # frontend, engine; empty where only a client told
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
    unknown: Mapping[Stage, str] = field(default_factory=dict)
    prefilled_by: Labels = ()

    @property
    def stage_s(self) -> dict[Stage, float | None]:
        """Seconds in each stage. The server's stages sum to `e2e_s` where all are known."""
        return {stage: getattr(self, f"{stage}_s") for stage in Stage}


@dataclass(slots=True)
class _Stages:
    """What is known of where the time went, and why of the rest nothing is."""

    seconds: dict[Stage, float | None] = field(default_factory=dict)
    reasons: dict[Stage, str] = field(default_factory=dict)
    ttft_s: float | None = None
    e2e_s: float | None = None

    def unknown(self, *, halves: bool) -> dict[Stage, str]:
        """A reason for each stage that has no value; without halves nothing is handed over."""
        return {
            stage: self.reasons.get(stage, _NOT_IN_SPANS)
            for stage in Stage
            if self.seconds.get(stage) is None and (halves or stage is not Stage.KV_TRANSFER)
        }


def requests_of(legs: Sequence[Leg]) -> list[tuple[Request, list[Leg]]]:
    """The requests in these legs of one trace, each with its own legs."""
    family = Family(legs)
    return [(join(group, family), group) for group in calls(legs, family)]


def join(legs: Sequence[Leg], family: Family | None = None) -> Request:
    """The request that these legs of one call describe; of one kind, the leg that began first.

    A whole engine's leg speaks before a pair's halves, a frontend's of the whole before both.
    """
    view = _View(legs, family or Family(legs))
    client, main = view.client, view.main
    stages = view.stages()
    # why not the prefill half: it always ends after one token
    answering = [leg for leg in (view.decoding, view.frontend, client) if leg]
    filled = [leg for leg in (view.filling, view.frontend, view.decoding, client) if leg]
    outer = client or view.frontend or view.server
    seconds = stages.seconds
    return Request(
        trace_id=main.trace_id,
        labels=view.labels(),
        start_at_ns=outer.start_at_ns if outer else view.began_at_ns,
        end_at_ns=outer.end_at_ns if outer else main.end_at_ns,
        outcome=_outcome(legs),
        finish_reason=next((leg.finish_reason for leg in answering if leg.finish_reason), ""),
        streamed=first(*(leg.streamed for leg in reversed(answering))),
        complete=view.complete,
        measured_by=view.measured_by,
        client_ttft_s=client.ttft_s if client else None,
        client_e2e_s=client.e2e_s if client else None,
        ttft_s=stages.ttft_s,
        e2e_s=stages.e2e_s,
        tpot_s=first(*(leg.tpot_s for leg in (view.decoding, view.frontend) if leg)),
        itl_max_s=first(*(leg.itl_max_s for leg in reversed(answering))),
        **{f"{stage}_s": seconds.get(stage) for stage in Stage},
        prompt_tokens=first(*(leg.prompt_tokens for leg in filled)),
        cached_tokens=first(*(leg.cached_tokens for leg in filled)),
        output_tokens=first(*(leg.output_tokens for leg in answering)),
        prefilled_by=view.pair.prefill.labels if view.pair else (),
        unknown=stages.unknown(halves=view.pair is not None),
    )


class _View:
    """The legs of one call by what they are to it."""

    def __init__(self, legs: Sequence[Leg], family: Family) -> None:
        self._legs = sorted(legs, key=lambda leg: (leg.start_at_ns, leg.span_id))
        self._family = family
        self._gateway = self._gateway_among_servers()
        self.client = self._outermost(LegKind.CLIENT)
        self.frontend = self._outermost(LegKind.FRONTEND) or _as_long_as_its_span(self._gateway)
        self.server = self._whole(self._outermost(LegKind.SERVER))
        self.pair = None if self.server else self._pair()
        self.filling = self.server or (
            self.pair.prefill if self.pair else self._whole(self._outermost(LegKind.PREFILL))
        )
        self.decoding = self.server or (
            self.pair.decode if self.pair else self._outermost(LegKind.DECODE)
        )
        told = self.decoding or self.filling or self.frontend or self.client
        if told is None:
            raise ValueError("a request has at least one leg")
        self.main = told

    @property
    def measured_by(self) -> str:
        if self.frontend:
            return "frontend"
        return "engine" if self.server or self.pair else ""

    @property
    def complete(self) -> bool:
        """A handler has a frontend, and what was prefilled well is decoded."""
        if self.frontend or self.server:
            return True
        if any(leg is not None and leg.is_handler for leg in (self.filling, self.decoding)):
            return False
        filled = self.filling is not None and self.filling.outcome is Outcome.OK
        return not filled or self.decoding is not None

    @property
    def began_at_ns(self) -> int:
        """By the clock of the leg that it ends by, if the others disagree."""
        if self.pair and not self.pair.met and self.pair.clocks_agree:
            return self.pair.prefill.start_at_ns
        return self.main.start_at_ns

    def labels(self) -> Labels:
        """Those of the replica that decoded; the model also where only the frontend knows it."""
        own = dict(self.main.labels)
        above = dict(self.frontend.labels) if self.frontend else {}
        if "model" in above:
            own.setdefault("model", above["model"])
        return labels_of(own)

    def stages(self) -> _Stages:
        found = _Stages()
        if self.server:
            self._of_server(found, self.server)
        elif self.pair and not (self.pair.prefill.is_handler or self.pair.decode.is_handler):
            self._of_pair(found, self.pair)
        else:
            self._of_halves(found)
        if self.frontend:
            self._of_frontend(found, self.frontend)
        self._of_client(found)
        return found

    def _of_server(self, found: _Stages, server: Leg) -> None:
        found.ttft_s, found.e2e_s = server.ttft_s, server.e2e_s
        found.seconds |= {
            Stage.QUEUE: server.queue_s,
            Stage.PREFILL: server.prefill_s,
            Stage.DECODE: server.decode_s,
            Stage.OVERHEAD: server.overhead_s,
        }

    def _of_pair(self, found: _Stages, pair: Pair) -> None:
        outer = self.client or self.frontend
        agree = pair.clocks_agree and not self._waited_less(outer, pair)
        transfer_s = pair.kv_transfer_s
        if pair.met:
            transfer_s = first(*(each.length_s for each in self._pieces(LegKind.TRANSFER_SLICE)))
        elif not agree and outer is not None:
            transfer_s = pair.kv_transfer_within_s(outer.ttft_s)
        if not agree:
            found.reasons[Stage.KV_TRANSFER] = found.reasons[Stage.OVERHEAD] = _CLOCKS
            found.reasons[Stage.NETWORK] = _CLOCKS
        if agree:
            found.ttft_s, found.e2e_s = pair.ttft_s, pair.e2e_s
        found.seconds |= {
            Stage.QUEUE: pair.queue_s,
            Stage.PREFILL: pair.prefill.prefill_s,
            Stage.KV_TRANSFER: transfer_s,
            Stage.DECODE: pair.decode.decode_s,
            Stage.OVERHEAD: pair.overhead_s(transfer_s) if agree else None,
        }

    def _waited_less(self, outer: Leg | None, pair: Pair) -> bool:
        """Whether who asked had its first token before the halves had it, by their two clocks."""
        if outer is None or outer.ttft_s is None or pair.ttft_s is None or pair.met:
            return False
        return outer.ttft_s < pair.ttft_s - CLOCK_TOLERANCE_S

    def _of_halves(self, found: _Stages) -> None:
        """Handlers, or one half alone: what each says of itself."""
        if self.filling:
            found.seconds[Stage.QUEUE] = self.filling.queue_s
            found.seconds[Stage.PREFILL] = self.filling.prefill_s
        if self.decoding:
            found.seconds[Stage.DECODE] = self.decoding.decode_s

    def _of_frontend(self, found: _Stages, frontend: Leg) -> None:
        """The whole is the frontend's; what engines leave of it is overhead."""
        found.ttft_s, found.e2e_s = frontend.ttft_s, frontend.e2e_s
        handler = self.filling if self.filling and self.filling.is_handler else None
        if handler is None:
            parts = [found.seconds.get(stage) for stage in (Stage.QUEUE, Stage.PREFILL)]
            parts.append(found.seconds.setdefault(Stage.DECODE, None))
            if self.pair:
                parts.append(found.seconds.get(Stage.KV_TRANSFER))
            found.seconds[Stage.OVERHEAD] = rest_s(frontend.e2e_s, sum_s(*parts))
        if self.decoding and self.decoding.is_handler:
            found.seconds[Stage.DECODE] = frontend.decode_s
        cut = self._cut(frontend, handler) if handler else None
        if cut is not None:
            found.seconds[Stage.OVERHEAD] = cut.arrival_s
            found.seconds[Stage.KV_TRANSFER] = cut.kv_transfer_s
            if cut.overlaps:
                found.reasons[Stage.KV_TRANSFER] = _OVERLAP

    def _of_client(self, found: _Stages) -> None:
        if self.client is None:
            found.reasons[Stage.NETWORK] = "no client told"
            return
        found.seconds[Stage.NETWORK] = rest_s(self.client.ttft_s, found.ttft_s)
        if self.client.ttft_s is not None and found.ttft_s is not None:
            found.reasons[Stage.NETWORK] = "the server waited longer than the client"

    def _cut(self, frontend: Leg, handler: Leg) -> Cut | None:
        """None where a span between the two is missing: whose clock it was is not known."""
        known = self._family.nearest(handler, LegKind.FRONTEND)
        return cut_of(self._family, frontend, handler) if known is not None else None

    def _pair(self) -> Pair | None:
        halves = [leg for leg in self._legs if leg.kind in (LegKind.PREFILL, LegKind.DECODE)]
        prefills = [leg for leg in halves if leg.kind is LegKind.PREFILL]
        decodes = [leg for leg in halves if leg.kind is LegKind.DECODE]
        fitting = [pair for one in prefills for other in decodes if (pair := Pair(one, other)).fits]
        for pair in sorted(fitting, key=lambda pair: not pair.clocks_agree)[:1]:
            whole = self._whole(pair.prefill)
            return Pair(whole, pair.decode) if whole else pair
        return None

    def _gateway_among_servers(self) -> Leg | None:
        """A server that tells no stage, above an engine: a gateway that nobody called one."""
        engines = [leg for leg in self._legs if leg.kind in ENGINES]
        silent = [leg for leg in engines if first(leg.queue_s, leg.prefill_s) is None]
        return next(
            (
                leg
                for leg in silent
                if leg.kind is LegKind.SERVER
                and any(leg in self._family.above(each) for each in engines)
            ),
            None,
        )

    def _outermost(self, kind: LegKind) -> Leg | None:
        """The first of a kind that has none of the same above it; of a try again the good one."""
        found = [
            leg
            for leg in self._legs
            if leg.kind is kind and leg is not self._gateway and self._is_outermost(leg)
        ]
        fine = [leg for leg in found if leg.outcome is Outcome.OK]
        return next(iter(fine or found), None)

    def _is_outermost(self, leg: Leg) -> bool:
        above = self._family.above(leg)
        return all(each.kind is not leg.kind or each is self._gateway for each in above)

    def _whole(self, leg: Leg | None) -> Leg | None:
        return None if leg is None else next(wholes(self._family, self._legs, leg))

    def _pieces(self, kind: LegKind) -> list[Leg]:
        return [leg for leg in self._legs if leg.kind is kind]


def _as_long_as_its_span(gateway: Leg | None) -> Leg | None:
    """A gateway that says nothing of its E2E was busy with the request all the while."""
    if gateway is None or gateway.e2e_s is not None:
        return gateway
    return replace(gateway, e2e_s=gateway.length_s)


def _outcome(legs: Sequence[Leg]) -> Outcome:
    """The user's side knows best, then a frontend; of several the worst counts."""
    told = [leg.outcome for leg in legs if leg.kind is not LegKind.LINK]
    for kind in (LegKind.FRONTEND, LegKind.CLIENT):
        told = [leg.outcome for leg in legs if leg.kind is kind] or told
    order = (Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED, Outcome.OK)
    return next(outcome for outcome in order if outcome in told)
