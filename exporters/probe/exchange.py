"""One probed request as a value: what each step took, what came back, and what was wrong."""

from dataclasses import dataclass

from domain.request import Outcome

__all__ = ["Exchange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """None means that it was not measured or not said; it never means zero.

    `first_byte_s`, `ttft_s`, `e2e_s` and `lasted_s` run from the moment the request was sent, with
    the connection already made. `gaps_s` lie between consecutive chunks that carry tokens;
    `chunk_tokens` says how many each of them carried, where the server counts along.
    `e2e_s` ends with the answer, and only a whole answer has one; `lasted_s` ends with whatever
    ended it. `reason` is a short word for a label, `trouble` a sentence for a person.
    """

    url: str
    started_at_ns: int
    sent_at_ns: int | None = None
    address: str = ""
    server: str = ""  # what the answer's `server` and `via` headers say
    reused: bool = False
    dns_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    first_byte_s: float | None = None
    ttft_s: float | None = None
    gaps_s: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    e2e_s: float | None = None
    lasted_s: float | None = None
    idle_s: float | None = None  # from the last byte, or the sending, to the end
    waited_s: float | None = None  # that we ourselves stood in line for a processor meanwhile
    status: int | None = None
    outcome: Outcome = Outcome.OK
    finish_reason: str = ""
    reason: str = ""
    trouble: str = ""
    notes: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None  # as billed
    counted_tokens: bool = True  # by the server; False: chunks were counted instead
    streamed_tokens: int | None = None  # without those that were thought but not sent
    retry_after_s: float | None = None
    trace_id: bytes = b""
    span_id: bytes = b""

    def __post_init__(self) -> None:
        for name in ("dns_s", "connect_s", "tls_s", "first_byte_s", "ttft_s", "e2e_s", "lasted_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite duration, not {value}")
        if any(not 0 <= gap < float("inf") for gap in self.gaps_s):
            raise ValueError("a gap between chunks is a finite duration")
        if self.chunk_tokens is not None and len(self.chunk_tokens) != len(self.gaps_s) + 1:
            raise ValueError("between n chunks there are n - 1 gaps")

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def wait_s(self) -> float | None:
        """What a user without a connection waits for the first token: all of it."""
        parts = (self.dns_s or 0.0, self.connect_s or 0.0, self.tls_s or 0.0)
        return self.ttft_s + sum(parts) if self.ttft_s is not None else None

    @property
    def decode_s(self) -> float | None:
        """First token to last token; None without a token."""
        return sum(self.gaps_s) if self.ttft_s is not None else None

    @property
    def tpot_s(self) -> float | None:
        """Decode time per token after the first; None for a one-token or a one-chunk answer."""
        gaps = (self.streamed_tokens or 0) - 1
        return sum(self.gaps_s) / gaps if gaps > 0 and self.gaps_s else None

    @property
    def itl_max_s(self) -> float | None:
        """The longest pause between two chunks."""
        return max(self.gaps_s, default=None)

    @property
    def chunks(self) -> int:
        """Chunks that carried tokens."""
        return len(self.gaps_s) + 1 if self.ttft_s is not None else 0
