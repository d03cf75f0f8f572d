"""One request of the ladder: when it was meant to go, when it went, and when its tokens came."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Phase", "Sample"]

Floats = NDArray[np.float64]


class Phase(StrEnum):
    """What a request is for. Only measured ones are judged; all of them are load."""

    WARM_UP = "warm-up"
    MEASURED = "measured"
    COOL_DOWN = "cool-down"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Instants on one monotonic clock. `failure` is empty for an answer that came whole.

    `chunk_at_s` are the arrivals of pieces with output, `chunk_tokens` how many tokens each had
    where the server says it. `output_tokens` are those that are paid for; `streamed_tokens` are
    without the ones that were thought but not sent.
    """

    phase: Phase
    intended_at_s: float
    sent_at_s: float
    ended_at_s: float
    chunk_at_s: Floats
    chunk_tokens: Floats | None = None
    streamed_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    failure: str = ""

    @property
    def ok(self) -> bool:
        return not self.failure

    @property
    def ttft_s(self) -> float | None:
        """Sending to the first token; None if none came."""
        return float(self.chunk_at_s[0]) - self.sent_at_s if len(self.chunk_at_s) else None

    @property
    def e2e_s(self) -> float | None:
        """Sending to the last token of a whole answer."""
        if self.failure or not len(self.chunk_at_s):
            return None
        return float(self.chunk_at_s[-1]) - self.sent_at_s

    @property
    def waited_s(self) -> float:
        """What it waited inside us before it was sent: coordinated omission made visible."""
        return max(self.sent_at_s - self.intended_at_s, 0.0)

    @property
    def tokens(self) -> int:
        """By the server's count where it gave one, else by pieces."""
        known = self.streamed_tokens if self.streamed_tokens is not None else self.output_tokens
        return known if known is not None else len(self.chunk_at_s)

    @property
    def gaps_s(self) -> Floats:
        """The pauses between pieces, of a cut-off answer too."""
        return np.diff(self.chunk_at_s)

    @property
    def tpot_s(self) -> float | None:
        """Decode time over tokens minus one; None for one token, and for an answer cut off."""
        if self.failure or self.tokens < 2 or len(self.chunk_at_s) < 2:
            return None
        return float(self.chunk_at_s[-1] - self.chunk_at_s[0]) / (self.tokens - 1)

    def share_between(self, since_s: float, until_s: float) -> float:
        """The share of its duration that lies in [since, until)."""
        within_s = min(self.ended_at_s, until_s) - max(self.sent_at_s, since_s)
        whole_s = self.ended_at_s - self.sent_at_s
        return max(within_s, 0.0) / whole_s if whole_s > 0 else 0.0

    def tokens_between(self, since_s: float, until_s: float) -> float:
        """Tokens that came in [since, until); a piece of unknown size has its share of them all."""
        at_s = self.chunk_at_s
        within = (at_s >= since_s) & (at_s < until_s)
        if self.chunk_tokens is not None:
            return float(self.chunk_tokens[within].sum())
        came = int(np.count_nonzero(within))
        return came * (self.tokens / len(at_s)) if self.ok and len(at_s) else float(came)
