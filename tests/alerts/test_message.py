"""The sentences of a page: who, since when, how bad, what was promised."""

import pytest

from alerts import message
from alerts.evaluate import judge, limit_of
from domain.objective import Severity, burn_rules
from domain.slice import Tally
from tests.alerts.fleet import START_S, chat

QUICK, _, TICKET, _ = burn_rules(30 * 86_400)
CHAT = chat("- p99 ttft <= 1.5s over 30d where use_case=chat")[0].objective
AT_S = START_S + 4 * 3600 + 20 * 60


def seen(bad, total, *, possibly=None, minutes=60, observed=None):
    possibly = bad if possibly is None else possibly
    return Tally(
        good_low=total - possibly,
        good_high=total - bad,
        total=total,
        minutes=minutes,
        observed_minutes=minutes if observed is None else observed,
    )


def verdict(long, short, rule=QUICK, objective=CHAT):
    return judge(limit_of(objective, rule), long=long, short=short, observed=True)


def headline(long, severity=Severity.PAGE, rule=QUICK, objective=CHAT, **more):
    return message.headline(
        objective,
        severity,
        verdict(long, long, rule, objective),
        since_s=AT_S - 660,
        at_s=AT_S,
        **more,
    )


def test_a_page_in_one_sentence():
    assert headline(seen(151, 1000)) == (
        "chat-ttft pages since 12:09 UTC: 151 of 1000 requests in the last 1 h waited more than "
        "1.5 s for the first token (15.1 %); the promise is at most 1 %."
    )


def test_a_stale_page_says_so_in_the_sentence():
    assert "since 12:09 UTC (stale: nobody looks since 12:15 UTC):" in headline(
        seen(151, 1000), stale_since_s=AT_S - 300
    )


def test_a_ticket_on_a_doubtful_count_gives_the_range():
    assert headline(seen(40, 10_000, possibly=150), Severity.TICKET, TICKET) == (
        "chat-ttft has a ticket since 12:09 UTC: 40 to 150 of 10000 requests in the last 1 d "
        "waited more than 1.5 s for the first token (possibly 1.5 %); the promise is at most 1 %."
    )


@pytest.mark.parametrize(
    ("phrase", "said"),
    [
        ("p99 tpot <= 50ms", "requests in the last 1 h took more than 50 ms per output token"),
        ("p99 itl <= 50ms", "gaps between tokens in the last 1 h were longer than 50 ms"),
        ("p99 itl_max <= 2s", "froze for more than 2 s between two tokens"),
        ("p99 e2e <= 30s", "took more than 30 s"),
        ("p99 queue <= 100ms", "queued for more than 100 ms"),
        ("p99 kv_transfer <= 5ms", "spent more than 5 ms in kv transfer"),
    ],
)
def test_the_deed_and_its_unit_are_those_of_the_metric(phrase, said):
    assert said in headline(seen(151, 1000), objective=chat(f"- {phrase}")[0].objective)


def test_a_page_of_long_ago_says_the_day():
    text = message.headline(
        CHAT,
        Severity.PAGE,
        verdict(seen(151, 1000), seen(151, 1000)),
        since_s=AT_S - 86_400,
        at_s=AT_S,
    )

    assert "since 2026-02-28 12:20 UTC" in text


def test_why_it_fired_is_both_windows_with_limit():
    assert message.why(CHAT, verdict(seen(151, 1000), seen(30, 80, minutes=5))) == [
        "last 1 h: 151 of 1000 bad, 15.1 % > 14.4 %",
        "last 5 min: 30 of 80 bad, 37.5 % > 14.4 %",
    ]


def test_why_names_what_was_not_seen_and_not_sure():
    lines = message.why(CHAT, verdict(seen(100, 1000, possibly=200, observed=50), Tally(minutes=5)))

    assert lines == [
        "last 1 h: surely 100 of 1000 bad, 10 % ≤ 14.4 % (10 of 60 min not observed)",
        "last 5 min: not observed",
        "the threshold lies between edges of the source; spans would make it exact",
    ]


def test_why_tells_that_few_requests_hold_a_page_back():
    lines = message.why(CHAT, verdict(seen(1, 6), seen(1, 1, minutes=5)))

    assert lines[-1] == (
        "1 bad of 6 may be chance: a page wants 10 bad ones, or a share that is surely above the "
        "limit"
    )


def test_the_end_says_how_long_it_was_and_how_it_is_now():
    over = message.resolved(
        CHAT,
        verdict(seen(151, 1000), seen(2, 800, minutes=5)),
        started_at_s=AT_S - 1320,
        at_s=AT_S,
    )

    assert over == (
        "chat-ttft is over at 12:20 UTC after 22 min: 2 of 800 requests in the last 5 min waited "
        "more than 1.5 s for the first token."
    )


def test_no_data_is_neither_good_nor_bad():
    assert message.no_data(CHAT, Severity.PAGE, observed_at_s=AT_S - 600, at_s=AT_S) == (
        "chat-ttft pages: nobody observes it since 12:10 UTC, so a broken promise would go unseen. "
        "Next: look whether its exporters, replicas and collector are up."
    )


def test_quiet_has_three_kinds():
    assert message.quiet(CHAT, seen(3, 1000)) == (
        "chat-ttft is quiet: 3 of 1000 requests in the last 1 h waited more than 1.5 s for the "
        "first token (0.3 %); the promise is at most 1 %."
    )
    assert message.quiet(CHAT, seen(0, 0)) == "chat-ttft had no traffic in the last 1 h."
    assert "not observed" in message.quiet(CHAT, Tally(minutes=60))
