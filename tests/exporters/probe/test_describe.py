"""What `--once` prints, as a person reads it."""

from dataclasses import replace

from domain.request import Outcome
from exporters.probe.describe import describe
from exporters.probe.exchange import Exchange
from exporters.probe.floor import Floor
from exporters.probe.round import Round
from tests.exporters.probe.asking import target_of

PUBLIC = Exchange(
    url="https://api.example/v1/chat/completions",
    address="203.0.113.7",
    server="nginx/1.22.1",
    started_at_ns=1,
    sent_at_ns=2,
    status=200,
    dns_s=0.012,
    connect_s=0.034,
    tls_s=0.071,
    first_byte_s=0.41,
    ttft_s=0.41,
    gaps_s=(0.0,) * 63,
    e2e_s=0.412,
    lasted_s=0.412,
    prompt_tokens=64,
    output_tokens=64,
    streamed_tokens=64,
)
ENGINE = replace(
    PUBLIC,
    url="http://engine:8000/v1/chat/completions",
    address="10.0.0.5",
    server="uvicorn",
    dns_s=None,
    connect_s=0.0004,
    tls_s=None,
    first_byte_s=0.002,
    ttft_s=0.09,
    gaps_s=(0.005,) * 63,
    e2e_s=0.405,
    lasted_s=0.405,
)
CUT = replace(
    PUBLIC,
    first_byte_s=None,
    ttft_s=None,
    gaps_s=(),
    e2e_s=None,
    prompt_tokens=None,
    output_tokens=None,
    streamed_tokens=None,
    status=None,
    server="",
    lasted_s=29.004,
    idle_s=29.004,
    outcome=Outcome.FAILED,
    reason="cut_off",
    trouble="https://api.example/v1/chat/completions: it hung up without an answer",
)
TARGET = target_of(
    None,
    path=["http://engine:8000", "https://api.example"],
    input_usd_per_million=1.0,
    output_usd_per_million=4.0,
    month_usd=20.0,
)


def test_a_path_that_holds_answers_back_golden(golden):
    found = Floor(url=PUBLIC.url, connect_s=(0.033, 0.034, 0.04), tls_s=(0.07, 0.071, 0.08))
    done = Round(
        asked=(PUBLIC,), inner=(ENGINE,), floor=found, month_usd=1.23, month_tokens=400_000
    )

    golden("probe-once-lumps.txt", describe(TARGET, done))


def test_a_cut_golden(golden):
    done = Round(asked=(CUT,), month_usd=0.0, month_tokens=0)

    golden("probe-once-cut.txt", describe(TARGET, done))


def test_a_busy_machine_says_that_it_measures_itself():
    told = describe(TARGET, Round(asked=(replace(PUBLIC, waited_s=0.2),)))

    assert "this machine is busy: the probe itself stood in line for 200 ms of that" in told


def test_a_target_that_is_capped_says_so():
    done = Round(refusal="this month's 20 US dollars are spent", refused_as="capped")

    assert describe(TARGET, done) == (
        "chat api.example (m): not asked (capped)\n  ! this month's 20 US dollars are spent\n"
    )
