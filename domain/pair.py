"""Two halves of a disaggregated request, read like one engine, as far as two clocks allow.

Halves come in three manners. *One after the other* (vLLM): prefill ends, then decode is asked; what
lies between is cut across two clocks. *Both at once*, told to meet in a room (SGLang): decode's own
durations hold everything. *Handlers under a frontend* (Dynamo): they overlap, so durations must not
be added; the frontend's wait is cut where the prefill handler begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.leg import (
    CLOCK_TOLERANCE_S,
    SECOND_NS,
    Leg,
    difference_s,
    rest_s,
    sum_s,
)

__all__ = ["HANDOVER_MAX_S", "Cut", "Pair"]

HANDOVER_MAX_S = 60.0
"""Between the end of prefill and the request to decode. Nobody holds a KV cache for a reader that
long under load (users give up first), while clocks that nobody sets are often minutes apart."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A prefill and a decode engine's leg of one request."""

    prefill: Leg
    decode: Leg

    @property
    def met(self) -> bool:
        """Both were asked at once and met in a room."""
        return self.prefill.room != 0 and self.prefill.room == self.decode.room

    @property
    def fits(self) -> bool:
        """One prompt: a trace may hold many calls, each with a longer one.

        why one token of difference: some routers hand the first token over with the prompt.
        """
        if self.prefill.room and self.decode.room:
            return self.met
        prompts = self.prefill.prompt_tokens, self.decode.prompt_tokens
        return prompts[0] is None or prompts[1] is None or abs(prompts[0] - prompts[1]) <= 1

    @property
    def handover_s(self) -> float:
        """The end of prefill to the start of decode, by two clocks."""
        return (self.decode.start_at_ns - self.prefill.end_at_ns) / SECOND_NS

    @property
    def clocks_agree(self) -> bool:
        """Whether what lies between the halves can be believed."""
        return self.met or -CLOCK_TOLERANCE_S <= self.handover_s <= HANDOVER_MAX_S

    @property
    def ttft_s(self) -> float | None:
        """Arrival at the prefill engine to the first token of the decode engine."""
        return sum_s(self._lead_s, self.decode.ttft_s)

    @property
    def e2e_s(self) -> float | None:
        return sum_s(self._lead_s, self.decode.e2e_s)

    @property
    def queue_s(self) -> float | None:
        """Both waits; where both were asked at once, prefill's: decode's lies beside it."""
        if self.met:
            return self.prefill.queue_s
        return sum_s(self.prefill.queue_s, self.decode.queue_s)

    @property
    def kv_transfer_s(self) -> float | None:
        """End of the prefill leg to the first token, less the decode engine's queue.

        None across clocks that disagree; of halves that met, a slice tells it.
        """
        ttft_s, queue_s = self.decode.ttft_s, self.decode.queue_s
        if self.met or not self.clocks_agree or ttft_s is None or queue_s is None:
            return None
        return difference_s(max(self.handover_s, 0.0) + ttft_s, queue_s)

    def kv_transfer_within_s(self, ttft_s: float | None) -> float | None:
        """The same and the network, of durations only: what a user's wait leaves of both halves."""
        return rest_s(ttft_s, sum_s(self.prefill.length_s, self.decode.queue_s))

    def overhead_s(self, kv_transfer_s: float | None) -> float | None:
        """What the stages leave of the whole."""
        stages_s = (self.queue_s, self.prefill.prefill_s, kv_transfer_s, self.decode.decode_s)
        return rest_s(self.e2e_s, sum_s(*stages_s))

    @property
    def _lead_s(self) -> float | None:
        """How long before the decode engine the prefill engine was asked."""
        if self.met:
            return 0.0
        if not self.clocks_agree:
            return None
        return self.prefill.length_s + max(self.handover_s, 0.0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A frontend's wait, cut where a prefill handler begins and ends.

    `asker` is the leg right above the handler, by the frontend's clock: a handler that does not
    begin within it has another clock, and is laid into the middle.
    """

    frontend: Leg
    asker: Leg
    prefill: Leg

    @property
    def clocks_agree(self) -> bool:
        begin_s = (self.prefill.start_at_ns - self.asker.start_at_ns) / SECOND_NS
        return -CLOCK_TOLERANCE_S <= begin_s <= self.asker.length_s + CLOCK_TOLERANCE_S

    @property
    def arrival_s(self) -> float:
        """Arrival to the beginning of the handler: routing, and the way."""
        start_at_ns = self.prefill.start_at_ns if self.clocks_agree else self.asker.start_at_ns
        begin_s = (start_at_ns - self.frontend.start_at_ns) / SECOND_NS
        if not self.clocks_agree:
            begin_s += max(self.asker.length_s - self.prefill.length_s, 0.0) / 2
        return max(begin_s, 0.0)

    @property
    def kv_transfer_s(self) -> float | None:
        """The end of the handler to the first token; None where the first token came before."""
        left_s = self._left_s
        return left_s if left_s is not None and left_s >= 0 else None

    @property
    def overlaps(self) -> bool:
        """Whether the first token came before the handler's end."""
        left_s = self._left_s
        return left_s is not None and left_s < 0

    @property
    def _left_s(self) -> float | None:
        ttft_s, prefill_s = self.frontend.ttft_s, self.prefill.prefill_s
        if ttft_s is None or prefill_s is None:
            return None
        return ttft_s - self.arrival_s - prefill_s
