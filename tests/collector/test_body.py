"""Bodies: whole or refused, and never more of them in memory than allowed."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.body import OVERHEAD_BYTES, Body, Budget, gunzip
from collector.otlp_status import Reason, Refusal

WHERE = "POST /v1/traces"


def reason_of(call, *args, **kwargs):
    with pytest.raises(Refusal) as refused:
        call(*args, **kwargs)
    return refused.value.reason


@given(st.lists(st.binary(max_size=300_000), min_size=1, max_size=4))
def test_every_member_of_a_gzip_body_is_read(parts):
    body = b"".join(gzip.compress(part, 1) for part in parts)

    assert gunzip(body, limit_bytes=2_000_000, where=WHERE) == b"".join(parts)


@given(st.binary(min_size=1, max_size=2000), st.data())
def test_gzip_cut_anywhere_is_malformed_and_never_half_a_body(part, data):
    body = gzip.compress(part)
    cut = data.draw(st.integers(0, len(body) - 1))

    assert reason_of(gunzip, body[:cut], limit_bytes=10_000, where=WHERE) is Reason.MALFORMED


@given(st.binary(min_size=1, max_size=500))
def test_what_is_not_gzip_is_malformed(noise):
    assert reason_of(gunzip, b"\x00" + noise, limit_bytes=10**6, where=WHERE) is Reason.MALFORMED


def test_noise_behind_the_last_member_is_malformed():
    body = gzip.compress(b"spans") + b"noise"

    assert reason_of(gunzip, body, limit_bytes=100, where=WHERE) is Reason.MALFORMED


def test_zeros_behind_the_last_member_are_padding():
    assert gunzip(gzip.compress(b"spans") + b"\0" * 99, limit_bytes=5, where=WHERE) == b"spans"


def test_a_flipped_bit_is_malformed():
    body = bytearray(gzip.compress(b"spans" * 100))
    body[-6] ^= 1  # in the checksum

    assert reason_of(gunzip, bytes(body), limit_bytes=1000, where=WHERE) is Reason.MALFORMED


@pytest.mark.parametrize(("size", "fits"), [(999, True), (1000, True), (1001, False)])
def test_the_limit_is_the_last_size_that_fits(size, fits):
    body = gzip.compress(b"\0" * size)

    if fits:
        assert len(gunzip(body, limit_bytes=1000, where=WHERE)) == size
    else:
        assert reason_of(gunzip, body, limit_bytes=1000, where=WHERE) is Reason.TOO_LARGE


def test_a_bomb_is_stopped_at_the_limit_and_costs_no_more_memory():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b"\0" * 1_000_000) for _ in range(200)) + packer.flush()
    tracemalloc.start()

    reason = reason_of(gunzip, bomb, limit_bytes=1_000_000, where=WHERE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert reason is Reason.TOO_LARGE
    assert peak < 2_500_000


def test_a_body_of_endless_empty_members_is_refused():
    body = gzip.compress(b"") * 5000

    assert reason_of(gunzip, body, limit_bytes=1000, where=WHERE) is Reason.MALFORMED


def arriving(*chunks, ends=True):
    """An ASGI `receive` that hands out the chunks; then the end, or silence."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if ends:
        messages[-1]["more_body"] = False

    async def receive():
        if messages:
            return messages.pop(0)
        return await asyncio.get_running_loop().create_future()

    return receive


def read(receive, *, limit_bytes=100, budget=None, timeout_s=5.0):
    body = Body(receive, WHERE)

    async def run():
        with (budget or Budget(10**6)).lease(WHERE) as lease:
            return await body.read(lease, limit_bytes=limit_bytes, timeout_s=timeout_s)

    return asyncio.run(run()), body


def test_a_body_is_all_its_chunks():
    data, body = read(arriving(b"ab", b"", b"cd"))

    assert data == b"abcd"
    assert body.complete


def test_a_body_is_refused_at_the_chunk_that_exceeds_the_limit():
    chunks = [b"x" * 60, b"x" * 60, b"never asked for"]
    receive = arriving(*chunks)

    assert reason_of(read, receive) is Reason.TOO_LARGE
    assert asyncio.run(receive())["body"] == b"never asked for"


def test_a_body_that_never_ends_is_given_up():
    assert reason_of(read, arriving(b"x", ends=False), timeout_s=0.02) is Reason.SLOW


def test_a_sender_that_goes_away_leaves_no_half_body():
    async def receive():
        return {"type": "http.disconnect"}

    assert reason_of(read, receive) is Reason.CUT_OFF


def test_a_full_budget_asks_to_come_again():
    budget = Budget(2 * OVERHEAD_BYTES)

    with budget.lease(WHERE) as first:
        first.grow(OVERHEAD_BYTES)
        with pytest.raises(Refusal) as refused:
            read(arriving(b"x"), budget=budget)

    assert refused.value.reason is Reason.OVERLOADED
    assert refused.value.retry_after_s == 1.0


def test_a_share_goes_back_whatever_happened():
    budget = Budget(OVERHEAD_BYTES + 100)
    for _ in range(3):
        read(arriving(b"x" * 90), budget=budget)
        reason_of(read, arriving(b"x" * 90, b"x" * 90), budget=budget)
        reason_of(read, arriving(b"x" * 101), budget=budget, limit_bytes=1000)

    assert budget.held_bytes == 0


def test_draining_ends_with_the_body():
    body = Body(arriving(b"x" * 1000, b"y"), WHERE)

    asyncio.run(body.drain())

    assert body.complete
