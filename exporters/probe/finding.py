"""What an exchange shows of the way to the model: lumps, cuts, refusals and cold starts, named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.request import Outcome
from exporters.probe.exchange import Exchange

__all__ = [
    "LIMITS",
    "Finding",
    "Limit",
    "Lumps",
    "cold_by_time",
    "finding",
    "late",
    "lumps",
    "where_lumps_begin",
]

_TOGETHER_S = 0.0003  # chunks closer than this came as one
_LUMP_CHUNKS = 4.0
_LUMP_TOKENS = 8.0  # more than any speculative decoder makes in a step
_FEWEST = 8
_OURS_SHARE = 0.1
_QUICKEST_S = 0.0003  # per token; no engine is quicker, so that this is no time to hold it back
_SHORTEST_S = 0.01  # lumps less far apart are made by jitter, and nobody sees them
_COLD_FACTOR, _COLD_MORE_S = 3.0, 1.0
_SLACK_S, _SLACK_SHARE = 0.45, 0.01
_GATEWAY_STATUS = (408, 502, 503, 504, 524)

_COLD = re.compile(
    r"not[ _-]?(yet )?(ready|loaded)|notready|(is|still|currently) (being )?load(ed|ing)"
    r"|loading (the )?model|warming up|cold start|starting up|scal(ing|ed?) (up )?from zero",
    re.IGNORECASE,
)
_THROTTLED = re.compile(r"throttl", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A time at which something on the way gives up. `idle`: it counts from the last byte."""

    seconds: int
    whole: bool
    idle: bool
    who: str


LIMITS: Final = (
    Limit(seconds=15, whole=True, idle=False, who="Envoy's route timeout"),
    Limit(seconds=29, whole=True, idle=True, who="API Gateway's integration timeout (REST)"),
    Limit(
        seconds=30,
        whole=True,
        idle=True,
        who="an HTTP API's integration timeout, CloudFront's origin timeout or a Google Cloud "
        "backend service's timeout",
    ),
    Limit(
        seconds=60,
        whole=True,
        idle=True,
        who="nginx's proxy_read_timeout, an AWS load balancer's idle timeout or SageMaker's limit",
    ),
    Limit(seconds=100, whole=False, idle=True, who="Cloudflare's proxy read timeout"),
    Limit(seconds=240, whole=False, idle=True, who="an Azure load balancer's idle timeout"),
    Limit(seconds=300, whole=True, idle=True, who="Envoy's stream idle timeout or API Gateway's"),
    Limit(seconds=350, whole=False, idle=True, who="an AWS network load balancer's idle timeout"),
    Limit(seconds=900, whole=True, idle=False, who="Lambda's or API Gateway's longest stream"),
)
"""Public defaults. What cut here may be another: the sentence says "usually"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A word for a label, and a sentence for a person."""

    reason: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lumps:
    """How chunks came. `held` is None where too few came to tell, or where we were late ourselves."""

    chunks: int
    lumps: int
    held: bool | None
    sentence: str = ""


def finding(exchange: Exchange) -> Finding | None:
    """The name of what went wrong; None where nothing did."""
    if exchange.outcome is not Outcome.OK and _COLD.search(exchange.trouble):
        return Finding(reason="cold_start", sentence=f"cold start: {exchange.trouble}")
    if exchange.status == 429:
        wait = exchange.retry_after_s
        asks = "it says nothing of when" if wait is None else f"it asks to wait {wait:g} s"
        return Finding(reason="http_429", sentence=f"rate limited, {asks}: {exchange.trouble}")
    if exchange.outcome is Outcome.FAILED and _THROTTLED.search(exchange.trouble):
        return Finding(reason="throttled", sentence=f"throttled: {exchange.trouble}")
    if (cut := _cut(exchange)) is not None:
        return cut
    if exchange.reason:
        return Finding(reason=exchange.reason, sentence=exchange.trouble)
    return None


def _cut(exchange: Exchange) -> Finding | None:
    """An end at a time that is somebody's limit."""
    broken = exchange.reason in ("cut_off", "no_finish", "no_events")
    if not broken and exchange.status not in _GATEWAY_STATUS:
        return None
    if exchange.outcome is not Outcome.FAILED or exchange.lasted_s is None:
        return None
    near = [
        (abs(after_s - limit.seconds), limit, after_s, since)
        for limit in LIMITS
        for counts, after_s, since in (
            (limit.whole, exchange.lasted_s, "after the request"),
            (limit.idle, exchange.idle_s, "after the last byte"),
        )
        if counts and after_s is not None and _is(after_s, limit.seconds)
    ]
    if not near:
        return None
    _, limit, after_s, since = min(near, key=lambda each: each[0])
    how = "cut" if broken else f"answered with {exchange.status}"
    return Finding(
        reason=f"cut_{limit.seconds}s",
        sentence=f"{exchange.url}: {how} {after_s:.2f} s {since}, with {exchange.chunks} chunks "
        f"until then: usually {limit.who}",
    )


def _is(after_s: float, limit_s: float) -> bool:
    return abs(after_s - limit_s) <= max(_SLACK_S, _SLACK_SHARE * limit_s)


def lumps(exchange: Exchange) -> Lumps:
    """Whether the answer arrived as it was made, or in lumps."""
    chunks = exchange.chunks
    if chunks == 0:
        return Lumps(chunks=0, lumps=0, held=None)
    many = 1 + sum(gap >= _TOGETHER_S for gap in exchange.gaps_s)
    tokens = sum(exchange.chunk_tokens) if exchange.chunk_tokens else chunks
    if max(tokens, chunks) < _FEWEST:
        return Lumps(chunks=chunks, lumps=many, held=None)
    together = chunks / many >= _LUMP_CHUNKS
    if together and many > 1 and (exchange.waited_s or 0.0) > _OURS_SHARE * sum(exchange.gaps_s):
        return Lumps(chunks=chunks, lumps=many, held=None)  # the lumps may be our own
    if together and _too_quick(exchange, many, tokens):
        return Lumps(chunks=chunks, lumps=many, held=None)
    thick = tokens / chunks >= _LUMP_TOKENS
    return Lumps(
        chunks=chunks,
        lumps=many,
        held=together or thick,
        sentence=_of_lumps(exchange, many, tokens, together=together) if together or thick else "",
    )


def _too_quick(exchange: Exchange, many: int, tokens: int) -> bool:
    """Nothing was held back for a time that could be told from none."""
    if many == 1:
        return (exchange.ttft_s or 0.0) + sum(exchange.gaps_s) < _QUICKEST_S * tokens
    return sum(exchange.gaps_s) / (many - 1) < _SHORTEST_S


def _of_lumps(exchange: Exchange, many: int, tokens: int, *, together: bool) -> str:
    if not together:
        return (
            f"{tokens} tokens came in {exchange.chunks} chunks: who writes the events gathers "
            f"tokens, about {tokens / exchange.chunks:.0f} at a time"
        )
    if many == 1:
        return f"all {exchange.chunks} chunks came at once: the whole answer was held back"
    apart_s = (exchange.decode_s or 0.0) / (many - 1)
    return f"{exchange.chunks} chunks came in {many} lumps, about {apart_s:.2g} s apart"


def where_lumps_begin(hops: Sequence[Exchange]) -> str:
    """The address from which on answers come in lumps, of hops from the engine outwards; or ''."""
    for before, here in zip((None, *hops), hops, strict=False):
        if lumps(here).held:
            return here.url if before is None or lumps(before).held is not None else ""
    return ""


def cold_by_time(first: Exchange, following: Exchange, usual_s: float | None) -> Finding | None:
    """Was the first late because it was the first? The next one right after it tells."""
    if first.ttft_s is None or following.ttft_s is None:
        return None
    base_s = following.ttft_s if usual_s is None else max(following.ttft_s, usual_s)
    if not late(first.ttft_s, base_s):
        return None
    return Finding(
        reason="cold_start",
        sentence=f"{first.url}: cold start: the first token took {first.ttft_s:.3g} s, that of "
        f"the next request {following.ttft_s:.3g} s",
    )


def late(ttft_s: float, usual_s: float) -> bool:
    """Much later than usual: threefold, and by more than a second."""
    return ttft_s >= max(_COLD_FACTOR * usual_s, usual_s + _COLD_MORE_S)
