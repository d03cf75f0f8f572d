"""Rules D: network, gateways, buffers, quotas and cold starts."""

from __future__ import annotations

from alerts.diagnosis.cutoff import CUTOFFS, Cutoff, cut_at
from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, Scope, When
from alerts.diagnosis.signals import Signal, Signals
from alerts.diagnosis.wording import ms, share, times
from domain.objective import Severity
from domain.request import Stage

__all__ = ["RULES"]

_BUFFERED = 0.9
_FLOWS = 0.3
_FEWEST_CHUNKS = 5.0
_LUMPS = 2.0
_CAP_BYTES_PER_S = 2.5e6
_FAR_S = 0.100
_FAR_SHARE = 0.30
_FURTHER = 1.3
_SMALL = 0.10
_THROTTLED = 0.01
_TAIL = 5.0
_COLD = 5.0
_NEW_S = 300.0
_READY_S = 60.0


def _cut(s: Signals, which: str) -> Finding | None:
    for cutoff in CUTOFFS:
        if cutoff.rule == which and (count := cut_at(s.aborted or (), cutoff)):
            return _cut_finding(s, cutoff, count)
    return None


def _cut_finding(s: Signals, cutoff: Cutoff, count: int) -> Finding:
    told = any(each.status is not None for each in s.aborted or ())
    what = "silence before the end" if cutoff.of_gap else "duration"
    return Finding(
        cause=cutoff.cause,
        evidence=(
            f"{count} answers cut with a {what} between {cutoff.low_s:g} and {cutoff.high_s:g} s",
        ),
        contra=() if told or cutoff.of_gap else ("their HTTP status is not told",),
        confidence=Confidence.HIGH if told or cutoff.of_gap else Confidence.MEDIUM,
        next_step=cutoff.remedy,
    )


def _wall(s: Signals) -> Finding | None:
    return _cut(s, "D1")


def _idle_cut(s: Signals) -> Finding | None:
    return _cut(s, "D2")


def _long_cut(s: Signals) -> Finding | None:
    return _cut(s, "D3")


def _buffered(s: Signals) -> Finding | None:
    if s.by(Signal.PROBE_LUMPS):
        lumped = sorted(place for place, held in s.by(Signal.PROBE_LUMPS).items() if held > 0)
        if lumped and not s.by(Signal.HOPS):
            return Finding(
                cause="something on the way holds answers back",
                evidence=(f"the probe sees answers arrive in lumps ({', '.join(lumped[:3])})",),
                place=lumped[0],
            )
    hops, chunks = list(s.by(Signal.HOPS).items()), s.get(Signal.CHUNKS)
    if len(hops) < 2:
        return None
    # why unsaid is enough: shares are told of long answers only
    many = chunks is None or chunks >= _FEWEST_CHUNKS
    lumps = chunks is not None and chunks <= _LUMPS and (s.get(Signal.OUTPUT_P50) or 0.0) > 50
    late = hops[-1][1] > _BUFFERED and hops[0][1] < _FLOWS and many
    if not (late or lumps):
        return None
    # why the first jump: behind a hop that holds back all look alike
    place = next((hop for hop, part in hops if part > _BUFFERED), hops[-1][0])
    return Finding(
        cause=f"{place} buffers the answer",
        evidence=(
            "first chunk after " + ", ".join(f"{share(part)} at {hop}" for hop, part in hops),
            *((f"{chunks:.0f} chunks",) if chunks is not None else ()),
        ),
        place=place,
        confidence=Confidence.HIGH,
        next_step=f"switch buffering off at {place}, the first hop where the ratio jumps",
    )


def _byte_cap(s: Signals) -> Finding | None:
    if not 0 < s[Signal.BYTE_RATE] < _CAP_BYTES_PER_S:
        return None
    return Finding(
        cause="the stream cap of API Gateway",
        evidence=(f"{s[Signal.BYTE_RATE] / 1e6:.1f} MB/s after the first 10 MB",),
    )


def _far(s: Signals) -> Finding | None:
    """Where a baseline is known, a way is a cause only if it grew: the far are always far."""
    here, then = s.by(Signal.NETWORK_BY_REGION), s.places_before.get(Signal.NETWORK_BY_REGION, {})
    if not here:
        return None
    region = max(here, key=lambda each: (here[each] - then.get(each, 0.0), each))
    far_s = here[region]
    ttft_s = s.get(Signal.TTFT_P50)
    part = far_s / (far_s + ttft_s) if ttft_s is not None and far_s + ttft_s > 0 else None
    if not (far_s > _FAR_S or (part is not None and part > _FAR_SHARE)):
        return None
    before_s = then.get(region)
    grew = before_s is not None and far_s > max(_FURTHER * before_s, before_s + 0.02)
    if before_s is None and s.clients_wait is False:
        return None
    contra = [f"so it was before ({ms(before_s)})"] if before_s is not None and not grew else []
    if part is not None and part < _SMALL:
        contra.append(f"it is {share(part)} of the first token's wait")
    if s.guilty not in (None, Stage.NETWORK):
        contra.append(f"what grew most is {s.guilty}")
    return Finding(
        cause=f"the network path of users in {region or 'one region'} is slow",
        evidence=(
            f"network P50 {ms(far_s)}"
            + (f", {ms(before_s)} before" if before_s is not None else ""),
            *((f"{share(part)} of the first token's wait",) if part is not None else ()),
        ),
        contra=tuple(contra),
        contradicted=bool(contra),
        confidence=Confidence.HIGH if grew else Confidence.LOW,
        place=region,
    )


def _quota(s: Signals) -> Finding | None:
    part, count = s.get(Signal.QUOTA_SHARE), s.get(Signal.QUOTA_COUNT)
    evidence = []
    if part is not None and part > _THROTTLED:
        evidence.append(f"{share(part)} of requests were refused with 429")
    if count is not None and count > 0:
        evidence.append(f"{count:.0f} throttles by the managed endpoint")
    if not evidence:
        return None
    return Finding(
        cause="a quota or the provider's concurrency is used up",
        evidence=tuple(evidence),
        confidence=Confidence.HIGH,
    )


def _cold(s: Signals) -> Finding | None:
    new = [each for each in s.arrived or () if each.age_s <= _NEW_S]
    cold = [each for each in new if each.ttft_s > _COLD * each.median_s]
    late = [each for each in new if each.ready_s is not None and each.ready_s > _READY_S]
    if not cold and not late:
        return None
    worst = max(cold or late, key=lambda each: each.ttft_s)
    evidence = [
        (
            f"{worst.place} began {worst.age_s:.0f} s ago: first tokens after {ms(worst.ttft_s)},"
            f" {ms(worst.median_s)} elsewhere"
        )
    ]
    if worst.ready_s is not None:
        evidence.append(f"ready {ms(worst.ready_s)} after it was asked for")
    return Finding(
        cause=f"cold start of {worst.place}",
        evidence=tuple(evidence),
        place=worst.place,
        confidence=Confidence.HIGH if cold else Confidence.LOW,
    )


def _not_ours(s: Signals) -> Finding | None:
    if not s[Signal.PROVIDER_TAIL] > _TAIL:
        return None
    growth = s.growth(Signal.SERVED_MEAN)
    ours = growth is not None and growth > 1.2
    return Finding(
        cause="the tail is the provider's: a pool shared with others",
        evidence=(f"the provider's P99 is {times(s[Signal.PROVIDER_TAIL])} its P50",),
        contra=(f"our own stages take {times(growth)} of before",) if ours and growth else (),
        contradicted=ours,
    )


def _provider_slots(s: Signals) -> Finding | None:
    knee, flight = s[Signal.PROVIDER_KNEE], s[Signal.IN_FLIGHT]
    if not flight > knee:
        return None
    return Finding(
        cause="requests queue at the provider",
        evidence=(f"{flight:.0f} in flight, TTFT bends at {knee:.0f}",),
        stage=Stage.QUEUE,
    )


_SOURCE = "S0"

RULES = (
    Rule(
        id="D1",
        title="29 s cliff",
        condition="≥ 3 failed answers of 28.5–29.6 s, > 20 × the density beside it; status 504",
        scope=Scope.SERVICE,
        needs=(Signal.ABORTED,),
        of=_wall,
        action="stream the answer, or raise the integration timeout",
        source=_SOURCE,
        stage=Stage.NETWORK,
        when=When.ALWAYS,
        depth=Depth.ROOT,
    ),
    Rule(
        id="D2",
        title="30 s idle cut",
        condition="≥ 3 streams aborted with a last gap of 29.5–31 s",
        scope=Scope.SERVICE,
        needs=(Signal.ABORTED, Signal.LAST_GAPS),
        of=_idle_cut,
        action="use a regional endpoint, send heartbeat comments",
        source=_SOURCE,
        stage=Stage.NETWORK,
        when=When.ALWAYS,
        depth=Depth.ROOT,
    ),
    Rule(
        id="D3",
        title="5 min or 15 min cut",
        condition="≥ 3 answers cut after a gap of 295–310 s or a duration of 895–905 s",
        scope=Scope.SERVICE,
        needs=(Signal.ABORTED,),
        of=_long_cut,
        action="send heartbeats; use an asynchronous job",
        source=_SOURCE,
        stage=Stage.NETWORK,
        helps=(Signal.LAST_GAPS,),
        when=When.ALWAYS,
        depth=Depth.ROOT,
    ),
    Rule(
        id="D4",
        title="buffering on the way",
        condition=(
            f"first chunk / total > {_BUFFERED:g} at the client, < {_FLOWS:g} at the server,"
            f" ≥ {_FEWEST_CHUNKS:.0f} chunks; or ≤ 2 chunks for > 50 tokens; or the probe sees lumps"
        ),
        scope=Scope.SERVICE,
        needs=(),
        either=(Signal.HOPS, Signal.PROBE_LUMPS),
        of=_buffered,
        action="switch buffering off at the gateway, CDN, proxy or Lambda in front of the engine",
        source=_SOURCE,
        stage=Stage.NETWORK,
        helps=(Signal.CHUNKS,),
        when=When.ALWAYS,
        depth=Depth.ROOT,
    ),
    Rule(
        id="D5",
        title="slow after 10 MB",
        condition="throughput about 2 MB/s after 10 MB",
        scope=Scope.REQUEST,
        needs=(Signal.BYTE_RATE,),
        of=_byte_cap,
        action="split the payload",
        source=_SOURCE,
        stage=Stage.NETWORK,
    ),
    Rule(
        id="D6",
        title="far from the users",
        condition=(
            f"network P50 of a region > {_FAR_S * 1000:.0f} ms or > {_FAR_SHARE:.0%} of TTFT,"
            " and grown where a baseline is known"
        ),
        scope=Scope.SERVICE,
        needs=(Signal.NETWORK_BY_REGION,),
        of=_far,
        action="look at the route, gateway and edge of that region; serve it from a nearer one",
        source="S1, S2, S4",
        stage=Stage.NETWORK,
        depth=Depth.ROOT,
        yields_to=("D4",),
        against="it was as far before, is a small part of the wait, or another stage grew most",
    ),
    Rule(
        id="D7",
        title="quota",
        condition=f"429 > {_THROTTLED:.0%}, or throttles of a managed endpoint > 0",
        scope=Scope.SERVICE,
        needs=(),
        either=(Signal.QUOTA_SHARE, Signal.QUOTA_COUNT),
        of=_quota,
        action="back off with jitter, raise the quota, or provision throughput",
        source="S1",
        when=When.ALWAYS,
        depth=Depth.ROOT,
    ),
    Rule(
        id="D8",
        title="cold start",
        condition=f"TTFT of a replica younger than {_NEW_S:.0f} s > {_COLD:g} × the median",
        scope=Scope.WORKER,
        needs=(Signal.COLD_TTFT,),
        of=_cold,
        action="keep a minimum of instances, warm them before they take traffic",
        source="S0, S1, S2",
        helps=(Signal.STARTED_LATE,),
        depth=Depth.ROOT,
        yields_to=("E13",),
    ),
    Rule(
        id="D9",
        title="the tail is not yours",
        condition=f"the provider's P99/P50 > {_TAIL:g} with our own stages flat",
        scope=Scope.SERVICE,
        needs=(Signal.PROVIDER_TAIL,),
        of=_not_ours,
        action="provision throughput, or run an endpoint of your own",
        source=_SOURCE,
        against="our own stages grew",
    ),
    Rule(
        id="D10",
        title="queue at the provider",
        condition="in flight above the knee that a concurrency sweep found",
        scope=Scope.SERVICE,
        needs=(Signal.PROVIDER_KNEE, Signal.IN_FLIGHT),
        of=_provider_slots,
        action="see A8: more slots, or fewer at once",
        source="S2",
        severity=Severity.TICKET,
    ),
)
