"""A round in our metrics: latencies, counts and levels, all of `source=probe`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np

from domain.distribution import exact
from domain.labels import Labels, labels_of
from exporters.engine.reading import Increment, Latency, Level, Reading
from exporters.probe.exchange import Exchange
from exporters.probe.floor import Floor
from exporters.probe.round import Round
from exporters.probe.settings import ProbeTarget

__all__ = ["IN_SPANS", "Reporter", "without_what_spans_tell"]

IN_SPANS = frozenset(("ttft", "tpot", "itl", "itl_max", "e2e"))
"""What a client's span tells the collector anyway."""

_SAMPLE = "chunk"
_FAR_BACK_NS = 60_000_000_000


class Reporter:
    """Rounds of one target as readings, one after the other in time."""

    def __init__(self, target: ProbeTarget, begun_at_ns: int) -> None:
        self._may = {
            "probe_allowance": target.month_usd,
            "probe_token_allowance": target.month_tokens,
        }
        self.labels = labels_of((*target.series, ("source", "probe")))
        self._at_ns = begun_at_ns

    def reading(self, done: Round, at_ns: int) -> Reading:
        """What one round says."""
        start_at_ns = self._at_ns
        if start_at_ns - at_ns >= _FAR_BACK_NS:  # why: what comes from the future is refused
            start_at_ns = at_ns - 1
        self._at_ns = at_ns = max(at_ns, start_at_ns + 1)  # clocks may be set back
        return Reading(
            target=self.labels,
            at_ns=at_ns,
            up=done.up,
            latencies=tuple(self._latencies(done, start_at_ns)),
            increments=tuple(self._increments(done, start_at_ns)),
            levels=tuple(self._levels(done)),
            notes=done.notes,
        )

    def _latencies(self, done: Round, start_at_ns: int) -> Iterator[Latency]:
        values: dict[str, list[float]] = {}
        for name, value_s in _values(done):
            values.setdefault(name, []).append(value_s)
        for name, several_s in values.items():
            yield Latency(
                metric=name,
                labels=self.labels,
                start_at_ns=start_at_ns,
                distribution=exact(np.array(several_s)),
                sample=_SAMPLE if name == "itl" else "",
            )

    def _increments(self, done: Round, start_at_ns: int) -> Iterator[Increment]:
        reasons = [found.reason if found else "ok" for found in map(done.found, done.asked)]
        reasons += [done.refused_as] if done.refused_as else []
        counts = {reason: float(reasons.count(reason)) for reason in reasons}
        for reason, number in counts.items():
            yield self._count("probes", self._with(reason), start_at_ns, number)
        tokens = sum(map(_tokens, (*done.asked, *done.inner)))
        if done.asked:
            yield self._count("probe_tokens", self.labels, start_at_ns, tokens)

    def _levels(self, done: Round) -> Iterator[Level]:
        if done.last is not None:
            found = done.found(done.last)
            why = "" if done.up or found is None else found.reason
            yield Level(metric="up", labels=self._with(why), value=float(done.up))
        if done.lumps is not None and done.lumps.held is not None:
            begins = urlsplit(done.lumps_begin).netloc
            held = float(done.lumps.held)
            yield Level(metric="buffering", labels=self._with(begins), value=held)
        told = {"probe_spending": done.month_usd, "probe_month_tokens": done.month_tokens}
        for metric, value in (told | self._may).items():
            if value is not None:
                yield Level(metric=metric, labels=self.labels, value=float(value))

    def _count(self, metric: str, labels: Labels, start_at_ns: int, by: float) -> Increment:
        return Increment(metric=metric, labels=labels, start_at_ns=start_at_ns, by=by)

    def _with(self, reason: str) -> Labels:
        return labels_of((*self.labels, ("reason", reason)))


def without_what_spans_tell(reading: Reading) -> Reading:
    """The rest of a reading whose exchanges travel as spans too: nothing is counted twice."""
    rest = tuple(each for each in reading.latencies if each.metric not in IN_SPANS)
    return replace(reading, latencies=rest)


def _values(done: Round) -> Iterator[tuple[str, float]]:
    """Every duration that the round tells. Only whole answers tell of tokens."""
    for exchange in done.asked:
        yield from _known(dns=exchange.dns_s, connect=exchange.connect_s, tls=exchange.tls_s)
        if exchange.ok:
            yield from _known(
                first_byte=exchange.first_byte_s,
                ttft=exchange.ttft_s,
                tpot=exchange.tpot_s,
                itl_max=exchange.itl_max_s,
                e2e=exchange.e2e_s,
            )
            yield from (("itl", gap_s) for gap_s in exchange.gaps_s)
    if done.floor is not None:
        yield from _of_floor(done.floor)


def _of_floor(found: Floor) -> Iterator[tuple[str, float]]:
    several: Iterable[tuple[str, tuple[float, ...]]] = (
        ("dns", found.dns_s),
        ("connect", found.connect_s),
        ("tls", found.tls_s),
    )
    for name, values_s in several:
        yield from ((name, value_s) for value_s in values_s)


def _known(**values_s: float | None) -> Iterator[tuple[str, float]]:
    yield from ((name, value) for name, value in values_s.items() if value is not None)


def _tokens(exchange: Exchange) -> float:
    return float((exchange.prompt_tokens or 0) + (exchange.output_tokens or 0))
