"""A round as text for a person: a paragraph and a small waterfall, what `--once` prints."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from exporters.probe.exchange import Exchange
from exporters.probe.floor import Floor
from exporters.probe.round import Round
from exporters.probe.settings import ProbeTarget

__all__ = ["describe"]

_WIDTH = 48
_NAME = 12
_BUSY_S = 0.01
_QUANTILES = (Fraction(1, 2), Fraction(99, 100))


def describe(target: ProbeTarget, done: Round) -> str:
    """What was asked, how long each step took, and what is to be said of it."""
    return "\n".join(_lines(target, done)) + "\n"


def _lines(target: ProbeTarget, done: Round) -> Iterator[str]:
    yield f"{target.service} {target.replica} ({target.model}): {_state(done)}"
    for exchange in done.asked:
        yield from _exchange(exchange)
    for exchange in done.inner:
        yield f"  behind it: {exchange.url}"
        yield from _exchange(exchange)
    if done.floor is not None:
        yield from _floor(done.floor)
    yield from _money(target, done)
    for note in done.notes:
        yield f"  ! {note}"


def _state(done: Round) -> str:
    if done.last is None:
        return f"not asked ({done.refused_as})"
    found = done.found(done.last)
    said = done.last.outcome.value + (f", {done.last.status}" if done.last.status else "")
    return f"{said} ({found.reason})" if found is not None else said


def _exchange(exchange: Exchange) -> Iterator[str]:
    at = f"{exchange.address} " if exchange.address else ""
    by = f" by {exchange.server}" if exchange.server else ""
    yield f"  {exchange.url}: {at}{exchange.status or 'no answer'}{by}"
    yield from _waterfall(exchange)
    yield from _tokens(exchange)
    for note in exchange.notes:
        yield f"  - {note}"
    if exchange.waited_s is not None and exchange.waited_s > _BUSY_S:
        waited = _seconds(exchange.waited_s)
        yield f"  - this machine is busy: the probe itself stood in line for {waited} of that"


def _waterfall(exchange: Exchange) -> Iterator[str]:
    """Each step where it lies in the whole; from the first byte on they begin at the sending."""
    before = [
        ("dns", exchange.dns_s),
        ("connect", exchange.connect_s),
        ("tls", exchange.tls_s),
    ]
    known = [(name, took_s) for name, took_s in before if took_s is not None]
    ahead_s = sum(took_s for _, took_s in known)
    whole_s = ahead_s + (exchange.lasted_s or 0.0)
    begins_s = 0.0
    for name, took_s in known:
        yield _bar(name, begins_s, took_s, whole_s)
        begins_s += took_s
    if exchange.first_byte_s is not None:
        yield _bar("first byte", ahead_s, exchange.first_byte_s, whole_s)
    if exchange.ttft_s is not None:
        yield _bar("first token", ahead_s, exchange.ttft_s, whole_s)
        yield _bar("tokens", ahead_s + exchange.ttft_s, exchange.decode_s or 0.0, whole_s)
    if exchange.lasted_s is not None:
        end = "whole answer" if exchange.e2e_s is not None else "until its end"
        yield _bar(end, ahead_s, exchange.lasted_s, whole_s)


def _bar(name: str, begins_s: float, took_s: float, whole_s: float) -> str:
    left = min(round(_WIDTH * begins_s / whole_s), _WIDTH - 1) if whole_s else 0
    long = min(max(round(_WIDTH * took_s / whole_s), 1) if whole_s else 1, _WIDTH - left)
    return f"  {name:{_NAME}s} {_seconds(took_s):>9s}  {' ' * left}{'█' * long}"


def _tokens(exchange: Exchange) -> Iterator[str]:
    if exchange.output_tokens is None and exchange.prompt_tokens is None:
        return
    told = [f"{_or_unknown(exchange.prompt_tokens)} tokens in"]
    told.append(f"{_or_unknown(exchange.output_tokens)} out in {exchange.chunks} chunks")
    if exchange.gaps_s:
        ordered = sorted(exchange.gaps_s)
        told += [
            f"gap P{float(q) * 100:g} {_seconds(ordered[ceil(q * len(ordered)) - 1])}"
            for q in _QUANTILES
        ]
        told.append(f"longest {_seconds(ordered[-1])}")
    if exchange.tpot_s is not None:
        told.append(f"TPOT {_seconds(exchange.tpot_s)}")
    yield f"  {', '.join(told)}"


def _floor(found: Floor) -> Iterator[str]:
    for name, least_s, middle_s, number in (
        ("TCP", found.connect_min_s, found.connect_median_s, len(found.connect_s)),
        ("TLS", found.tls_min_s, found.tls_median_s, len(found.tls_s)),
    ):
        if least_s is not None and middle_s is not None:
            yield (
                f"  network floor: {number} {name} handshakes, quickest {_seconds(least_s)}, "
                f"median {_seconds(middle_s)}"
            )


def _money(target: ProbeTarget, done: Round) -> Iterator[str]:
    if done.month_usd is not None:
        of = f" of {target.month_usd:g}" if target.month_usd is not None else ""
        yield f"  this month: {done.month_usd:.6f}{of} US dollars, {done.month_tokens} tokens"
    elif target.month_tokens is not None:
        yield f"  this month: {done.month_tokens} of {target.month_tokens} tokens"


def _or_unknown(number: int | None) -> str:
    return "an unknown number of" if number is None else str(number)


def _seconds(value_s: float) -> str:
    return f"{value_s * 1000:.3g} ms" if value_s < 0.9995 else f"{value_s:.3f} s"
