"""A cookie stands for a token: until its end, while the token is there, and for nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.session import LASTS_S, issued, token_of

DIGESTS = [b"a" * 32, b"b" * 32]
NOW_S = 1_772_367_000


@given(st.integers(0, 1), st.integers(0, LASTS_S - 1))
def test_a_session_stands_for_its_token_until_it_ends(which, later_s):
    cookie = issued(DIGESTS[which], now_s=NOW_S)

    assert token_of(cookie, DIGESTS, now_s=NOW_S + later_s) == DIGESTS[which]
    assert token_of(cookie, DIGESTS, now_s=NOW_S + LASTS_S) is None


def test_a_session_ends_with_its_token():
    cookie = issued(DIGESTS[0], now_s=NOW_S)

    assert token_of(cookie, DIGESTS[1:], now_s=NOW_S) is None


@given(st.text(max_size=300))
def test_what_is_no_session_stands_for_nobody(cookie):
    assert token_of(cookie, DIGESTS, now_s=NOW_S) is None


@pytest.mark.parametrize("later", [1, 86_400, 10**12])
def test_a_session_cannot_be_made_to_last_longer(later):
    until, _, signature = issued(DIGESTS[0], now_s=NOW_S).partition(".")

    assert token_of(f"{int(until) + later}.{signature}", DIGESTS, now_s=NOW_S) is None
