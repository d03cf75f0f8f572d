"""A token stream while it arrives: when each chunk came, what it carried, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from domain.request import Outcome
from exporters.probe.chunk import Chunk
from exporters.probe.failure import ProbeError

__all__ = ["Answer"]

_SECOND_NS = 1e9
_MOST_EVENTS = 200_000
_BROKEN = ("error", "abort", "aborted", "cancelled")


@dataclass(slots=True)
class Answer:
    """Takes chunks with the instants at which they came."""

    where: str
    sent_at_ns: int
    events: int = 0
    done: bool = False
    finish_reason: str = ""
    error: str = ""
    whole: bool = False  # the server does not stream
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    _instants: list[int] = field(default_factory=list)
    _carried: list[int] = field(default_factory=list)
    _deltas: int = 0
    _thinks: bool = False

    def take(self, at_ns: int, chunk: Chunk) -> None:
        """One chunk, and when its last byte came."""
        self.events += 1
        self.done = self.done or chunk.done
        if self.events > _MOST_EVENTS:
            raise ProbeError("too_large", f"more than {_MOST_EVENTS} events", where=self.where)
        before = self.output_tokens
        self._note(chunk)
        grown = (self.output_tokens or 0) - (before or 0)
        # why: a byte of a letter, or the end token, is a token too, though it shows nothing
        unseen = chunk.deltas > 0 and before is not None and grown > 0
        if chunk.whole:
            self.whole = True
        elif chunk.shows or (self._instants and unseen):
            self._instants.append(at_ns)
            if chunk.output_tokens is not None:
                self._carried.append(max(grown, 0))

    def _note(self, chunk: Chunk) -> None:
        self._deltas += chunk.deltas
        self._thinks = self._thinks or chunk.thinks
        self.error = self.error or chunk.error
        self.finish_reason = chunk.finish_reason or self.finish_reason
        for name in ("prompt_tokens", "output_tokens", "thought_tokens"):
            told = getattr(chunk, name)
            if told is not None:
                setattr(self, name, told)

    @property
    def chunks(self) -> int:
        return len(self._instants)

    def judged(self) -> dict[str, Any]:
        """How it ended, once it has: outcome, reason and trouble of an Exchange."""
        broken = self._broken()
        if broken is not None:
            reason, trouble = broken
            return {
                "outcome": Outcome.FAILED,
                "reason": reason,
                "trouble": f"{self.where}: {trouble}",
            }
        told: dict[str, Any] = {"outcome": Outcome.OK}
        if self.whole:
            trouble = f"{self.where}: it answers in one piece though it was asked to stream"
            return {**told, "reason": "no_stream", "trouble": trouble}
        if not self._instants and self.output_tokens != 0:
            trouble = (
                f"{self.where}: {self._deltas} chunks arrived and none shows text, thought or a "
                "tool call: the first token's time cannot be told"
            )
            return {**told, "reason": "no_content", "trouble": trouble}
        return told

    def _broken(self) -> tuple[str, str] | None:
        """Why this is no answer, though its status was 200: a word and a sentence."""
        if self.error:
            return "error_event", f"an error in the answer: {self.error}"
        if self.finish_reason in _BROKEN:
            return "error_finish", f"it finished by {self.finish_reason!r}"
        if not self.events:
            return "no_events", "status 200, and no event in the answer"
        if not self.finish_reason:
            ended = f"the answer ended after {self.chunks} chunks"
            return "no_finish", f"{ended} without a finish reason: it is not whole"
        return None

    def measured(self) -> dict[str, Any]:
        """Times and tokens of an Exchange, as far as they are known."""
        counted = self.output_tokens is not None
        output = self.output_tokens if counted else (self.chunks or None)
        hidden = 0 if self._thinks else (self.thought_tokens or 0)
        notes = []
        if not counted and self.chunks:
            notes.append(f"the server counts no tokens: {self.chunks} chunks are taken for as many")
        if hidden:
            notes.append(f"{hidden} tokens of thought were billed and not sent")
        every = bool(self._instants) and len(self._carried) == len(self._instants)
        return {
            "ttft_s": self._seconds_to(self._instants[0]) if self._instants else None,
            "gaps_s": self._gaps_s(),
            "chunk_tokens": tuple(self._carried) if every else None,
            "finish_reason": self.finish_reason,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": output,
            "counted_tokens": counted,
            "streamed_tokens": None if output is None else max(output - hidden, 0),
            "notes": tuple(notes),
        }

    def _gaps_s(self) -> tuple[float, ...]:
        following = zip(self._instants, self._instants[1:], strict=False)
        return tuple((later - sooner) / _SECOND_NS for sooner, later in following)

    def _seconds_to(self, at_ns: int) -> float:
        return max(at_ns - self.sent_at_ns, 0) / _SECOND_NS
