"""Requests from outside: what cannot be is counted and left unknown, never repaired in silence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.query import Window
from domain.errors import InputError
from domain.labels import labels_of
from domain.leg import Outcome
from domain.request import Request
from review.period import SECONDS, Kind, Worker, period_of
from review.reading import period_from

WINDOW = Window(since_s=1_790_000_000, until_s=1_790_003_600)

_odd = st.one_of(st.floats(-5, 50), st.sampled_from((np.nan, np.inf, -np.inf)))


@given(st.lists(st.tuples(st.floats(0, 100), *[_odd] * 5, st.integers(-5, 1 << 30)), max_size=20))
def test_whatever_comes_a_period_has_stages_in_order_or_unknown(rows):
    table = np.array(rows, float).reshape(-1, 7)
    columns = {name: table[:, place + 1] for place, name in enumerate(SECONDS)}

    period = period_of(
        {"arrival_s": table[:, 0], **columns, "prompt_tokens": table[:, 6]},
        (),
        since_s=0,
        length_s=99,
    )

    stages = np.array([getattr(period, name) for name in SECONDS])
    for column in stages.T:
        known = column[~np.isnan(column)]
        assert (known >= 0).all()
        assert (np.diff(known) >= 0).all()
    assert ((period.prompt_tokens > 0) | (period.prompt_tokens == -1)).all()
    assert (np.diff(period.arrival_s) >= 0).all()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"arrival_s": [np.nan]}, "an arrival is no instant"),
        ({"arrival_s": [1.0], "prompt_tokens": [1, 2]}, "it has 2 rows"),
        ({"arrival_s": [1.0], "decoder": [4]}, "a worker stands there"),
        ({"arrival_s": [1.0], "outcome": [7]}, "an outcome stands there"),
    ],
)
def test_columns_that_cannot_be_are_errors_that_name_them(columns, says):
    with pytest.raises(InputError, match=says):
        period_of(columns, (Worker(name="d", kind=Kind(role="decode")),), since_s=0, length_s=9)


def request(second, **told):
    at_ns = (WINDOW.since_s + second) * 10**9
    basis = {
        "trace_id": second.to_bytes(16, "big"), "start_at_ns": at_ns, "end_at_ns": at_ns + 10**9,
        "outcome": Outcome.OK, "labels": labels_of({"replica": "d0", "role": "decode"}),
        "ttft_s": 0.5, "queue_s": 0.1, "prefill_s": 0.3, "kv_transfer_s": 0.1, "decode_s": 2.0,
        "e2e_s": 2.5, "prompt_tokens": 100, "cached_tokens": 40, "output_tokens": 9,
    }  # fmt: skip
    return Request(**{**basis, **told})


def test_requests_of_the_store_become_instants_since_arrival():
    period = period_from(
        [request(5), request(2, outcome=Outcome.FAILED, ttft_s=None, decode_s=None)],
        WINDOW,
        gpus={"d0": "H100"},
        replicas=[labels_of({"replica": "p0", "role": "prefill"})],
    )

    assert period.arrival_s.tolist() == [2, 5]
    assert (period.start_s[1], period.prefilled_s[1]) == pytest.approx((0.1, 0.4))
    assert (period.first_s[1], period.last_s[1]) == pytest.approx((0.5, 2.5))
    assert np.isnan(period.joined_s).all()
    assert period.served.tolist() == [False, True]
    assert period.prefiller.tolist() == [-1, -1]
    assert {str(worker.kind) for worker in period.workers} == {"decode H100", "prefill"}


def test_wrong_requests_load_nothing_and_are_counted():
    period = period_from([request(5), request(6, outcome=Outcome.REJECTED)], WINDOW)

    assert len(period) == 1
    assert period.left_out == {"the request itself was wrong": 1}


def test_a_replica_that_does_both_is_its_own_prefill_worker():
    whole = request(5, labels=labels_of({"replica": "r0"}), kv_transfer_s=None)

    period = period_from([whole], WINDOW)

    assert period.workers[0].kind.role == "both"
    assert (period.prefiller[0], period.decoder[0]) == (0, 0)
