"""What may happen in our trade, for property tests."""

import math

import numpy as np
from hypothesis import strategies as st

from domain.buckets import from_buckets, layout
from domain.labels import LABEL_NAMES, labels_of
from domain.leg import ALONE, SLICES, Leg, LegKind, Outcome

__all__ = [
    "DYNAMO_TTFT_S",
    "ENGINE_LAYOUTS_S",
    "SGLANG_QUEUE_S",
    "VLLM_QUEUE_S",
    "VLLM_TTFT_S",
    "close_layouts_s",
    "cut",
    "durations_s",
    "exact_legs",
    "families",
    "labels",
    "layouts_s",
    "legs",
    "samples",
    "scrape",
]

INF = math.inf
# fmt: off
VLLM_TTFT_S = (.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1., 2.5, 5., 7.5, 10., 20., 40., 80., 160., 640., 2560., INF)
VLLM_QUEUE_S = (.3, .5, .8, 1., 1.5, 2., 2.5, 5., 10., 15., 20., 30., 40., 50., 60., 120., 240., 480., 960., 1920., 7680., INF)
SGLANG_QUEUE_S = (0., .001, .005, .01, .05, .1, .2, .5, 1., 2., 5., 10., 50., 100., 300., 1000., 3000., INF)
DYNAMO_TTFT_S = (0., .0022, .0047, .01, .022, .047, .1, .22, .47, 1., 2.2, 4.7, 10., 22., 48., 100., 220., 480., INF)
# fmt: on
ENGINE_LAYOUTS_S = (VLLM_TTFT_S, VLLM_QUEUE_S, SGLANG_QUEUE_S, DYNAMO_TTFT_S)


def _ascending(first_s, steps):
    edges = first_s * np.cumprod([1.0, *steps])
    return (*edges.tolist(), INF)


_own_layouts = st.builds(
    _ascending, st.floats(1e-4, 1.0), st.lists(st.floats(1.05, 10.0), max_size=12)
)
layouts_s = st.one_of(st.sampled_from(ENGINE_LAYOUTS_S), _own_layouts)
"""Upper edges as engines have them, or any others at least 5 % apart."""

close_layouts_s = st.builds(
    _ascending, st.floats(1e-3, 1.0), st.lists(st.floats(1.0001, 1.04), min_size=1, max_size=40)
)
"""Edges so close that several fall into one cell."""

durations_s = st.one_of(st.just(0.0), st.floats(1e-8, 1e5), st.floats(1e-3, 60.0))
_typical = st.builds(
    lambda seed, n, middle, spread: np.random.default_rng(seed).lognormal(middle, spread, n),
    st.integers(0, 2**32),
    st.integers(1, 300),
    st.floats(-6, 4),
    st.floats(0.05, 2),
)
samples = st.one_of(st.lists(durations_s, min_size=1, max_size=60).map(np.array), _typical)
"""The values of one interval: a few of any size, or many like a real latency."""


def scrape(values_s, edges_s, *, with_sum=True):
    """What one interval of an engine's page says of these values."""
    counts = np.bincount(np.searchsorted(edges_s, values_s), minlength=len(edges_s))
    sum_s = math.fsum(values_s) if with_sum else None
    return from_buckets(layout(edges_s), counts, sum_s)


def cut(values_s, at):
    """The values in parts, cut at these shares of their number."""
    places = sorted(int(share * len(values_s)) for share in at)
    return np.split(values_s, places)


labels = st.dictionaries(
    st.sampled_from(LABEL_NAMES), st.text("abc-7", min_size=1, max_size=4), max_size=4
).map(labels_of)

_START_AT_NS = 1_800_000_000_000_000_000
_stage_s = st.one_of(st.none(), st.floats(0, 30))
_tokens = st.one_of(st.none(), st.integers(1, 50))
_PARENTS = (b"", b"", b"nobody's", b"above it", b"above us")
_TELLING = tuple(kind for kind in LegKind if kind not in SLICES | {LegKind.LINK})


def _leg(start_ns, length_ns, **told):
    return Leg(
        start_at_ns=_START_AT_NS + start_ns,
        end_at_ns=_START_AT_NS + start_ns + length_ns,
        **{"trace_id": b"t" * 16, **told},
    )


_told = {
    "start_ns": st.one_of(st.sampled_from((0, 10**9)), st.integers(0, 10**10)),
    "length_ns": st.integers(0, 10**10),
    "labels": labels,
    "outcome": st.sampled_from((*Outcome, Outcome.OK, Outcome.OK)),
    "finish_reason": st.sampled_from(("", "stop", "length")),
    "streamed": st.sampled_from((None, True, False)),
    "ttft_s": _stage_s,
    "e2e_s": _stage_s,
    "queue_s": _stage_s,
    "prefill_s": _stage_s,
    "decode_s": _stage_s,
    "itl_max_s": _stage_s,
    "prompt_tokens": _tokens,
    "output_tokens": _tokens,
}
legs = st.builds(
    _leg,
    span_id=st.one_of(st.sampled_from(_PARENTS[3:]), st.binary(min_size=8, max_size=8)),
    parent_id=st.sampled_from(_PARENTS),
    kind=st.sampled_from(_TELLING),
    **_told,
)
"""Any leg of one trace that tells something: what it tells need not fit together."""


@st.composite
def families(draw, most=7):
    """Legs of a trace as tracers write it: one root, everybody beneath somebody, some spans lost."""
    found = []
    for place in range(draw(st.integers(1, most))):
        above = (
            draw(st.sampled_from(found)).span_id if found else draw(st.sampled_from((b"", ALONE)))
        )
        kind = draw(st.sampled_from(LegKind))
        if above == ALONE and kind is not LegKind.CLIENT:
            above = b"nobody's"
        leg = draw(
            st.builds(
                _leg,
                span_id=st.just((place + 1).to_bytes(8, "big")),
                parent_id=st.just(above),
                kind=st.just(kind),
                room=st.sampled_from((0, 0, 7)),
                **_told,
            )
        )
        found.append(leg)
    lost = draw(st.sets(st.integers(0, most - 1), max_size=2))
    return [leg for place, leg in enumerate(found) if place not in lost]


_second = st.floats(0, 30)
exact_legs = st.builds(
    lambda queue_s, prefill_s, decode_s, rest_s: Leg(
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        kind=LegKind.SERVER,
        labels=(),
        start_at_ns=_START_AT_NS,
        end_at_ns=_START_AT_NS + 1,
        ttft_s=queue_s + prefill_s,
        queue_s=queue_s,
        prefill_s=prefill_s,
        decode_s=decode_s,
        e2e_s=queue_s + prefill_s + decode_s + rest_s,
        output_tokens=7,
    ),
    _second,
    _second,
    _second,
    _second,
)
"""A whole engine's leg that tells all its stages."""
