"""Refusals in OTLP's words: every reason has its answer on both wires."""

import pytest
from google.protobuf.json_format import Parse
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from collector.otlp_status import (
    JSON,
    PROTOBUF,
    Reason,
    Refusal,
    answer,
    encoded,
    retry_trailers,
    status_of,
)
from domain.errors import InputError


def refusal(reason=Reason.OVERLOADED, retry_after_s=None):
    return Refusal("full", reason=reason, where="here", remedy="Wait.", retry_after_s=retry_after_s)


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.PARTIAL, Reason.WARNING}))
def test_every_reason_has_its_answer_on_both_wires(reason):
    http, code = answer(reason)

    assert 400 <= http < 600
    assert 0 < code <= 16


@pytest.mark.parametrize("reason", [Reason.OVERLOADED, Reason.STORE])
def test_lack_of_room_is_answered_so_that_every_sender_tries_again(reason):
    assert answer(reason) == (503, 14)


@pytest.mark.parametrize("reason", [Reason.MALFORMED, Reason.UNAUTHENTICATED, Reason.TOO_LARGE])
def test_what_would_fail_again_is_answered_so_that_nobody_tries_again(reason):
    assert answer(reason)[0] not in {429, 502, 503, 504}
    assert answer(reason)[1] not in {1, 4, 10, 11, 14, 15}


def test_a_refusal_says_where_what_and_the_way_out():
    assert isinstance(refusal(), InputError)
    assert status_of(refusal()).message == "here: full. Wait."


@given(st.floats(0, 1e6))
def test_the_moment_to_come_again_survives_the_wire(after_s):
    trailers = dict(retry_trailers(refusal(retry_after_s=after_s)))

    rich = Status.FromString(trailers["grpc-status-details-bin"])
    retry = RetryInfo()
    assert rich.details[0].Unpack(retry)
    assert retry == RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"])
    delay_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    assert delay_s == pytest.approx(after_s, abs=2e-9)


def test_without_a_moment_no_sender_is_told_to_come_again():
    assert [key for key, _ in retry_trailers(refusal())] == ["grpc-status-details-bin"]
    assert not status_of(refusal()).details


def test_both_encodings_say_the_same():
    status = status_of(refusal(retry_after_s=1.5))

    assert Status.FromString(encoded(status, PROTOBUF)) == status
    assert Parse(encoded(status, JSON), Status()) == status
