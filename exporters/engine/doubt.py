"""Numbers that cannot be true, and settings that cannot be right, by what the page itself says."""

import math
from dataclasses import dataclass

from exporters.engine.growth import Grown

__all__ = ["Answers", "all_at_nothing"]

IMPOSSIBLE = frozenset({"ttft", "itl", "tpot", "e2e"})
"""No model answers a token in the times that `all_at_nothing` means."""

_NOTHING_S = 50e-6
_NARROW_S = 0.001
_ENOUGH = 10
_ONE_TOKEN = 1.5


def all_at_nothing(metric: str, grown: Grown, *, scale: float = 1.0) -> str:
    """Why a histogram is suspect that says no time passed (vllm#6337); empty where it does not.

    All values lie in the first bucket, and their sum is next to nothing; without a sum, the bucket
    itself is too narrow to be true.
    """
    n = sum(grown.counts)
    if metric not in IMPOSSIBLE or not n or grown.counts[0] != n:
        return ""
    edge_s = grown.edges[0] * scale
    if grown.total is None:
        at_nothing = edge_s <= _NARROW_S
        why = "the page has no sum"
    else:
        at_nothing = 0 <= grown.total * scale / n <= min(_NOTHING_S, edge_s)
        why = f"their sum is {grown.total * scale:g} s"
    if not at_nothing or not math.isfinite(edge_s):
        return ""
    return f"{metric} is suspect: all of {n} values lie in the first bucket (≤ {edge_s:g} s), {why}"


@dataclass(slots=True)
class Answers:
    """How long the answers of a target are that is said to decode: with one token, it does not."""

    tokens: float = 0.0
    finished: float = 0.0

    def question(self, role: str, tokens: float | None, finished: float | None) -> str:
        """A sentence where the role is doubtful, or lacks; empty where it is not."""
        if tokens is None or finished is None:
            return ""
        self.tokens += tokens
        self.finished += finished
        if self.finished < _ENOUGH or self.tokens > _ONE_TOKEN * self.finished:
            return ""
        had = f"{self.finished:g} answers had {self.tokens:g} tokens. Is it a prefill engine?"
        if not role:
            return (
                f"no role is set, and {had} Then say `role: prefill`, or its times pass for users'"
            )
        return f"role {role} is doubtful: {had}"
