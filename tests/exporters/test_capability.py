"""What a target can tell, by its role and by what its page has or declares."""

import pytest

from exporters.engine.capability import Cache, missing
from exporters.engine.describe import describe
from exporters.engine.engines import ENGINES
from exporters.engine.own_page import OwnPage
from exporters.engine.progress import Progress
from exporters.engine.recognition import engines_of
from exporters.engine.table import Shape, spellings
from tests.exporters.pages_of import from_start, page
from tests.exporters.test_target import histogram

EMPTY = "vllm:other 1\n"


def lacking(text, role=""):
    told = page(text)
    return missing(told, engines_of(told), role)


@pytest.mark.parametrize(
    ("role", "stages"),
    [
        ("", "ttft itl tpot e2e queue prefill decode kv_cache_usage"),
        ("both", "ttft itl tpot e2e queue prefill decode kv_cache_usage"),
        ("prefill", "queue prefill kv_transfer kv_cache_usage"),
        ("decode", "itl tpot queue decode kv_transfer kv_cache_usage"),
    ],
)
def test_what_is_asked_of_a_target_depends_on_its_role(role, stages):
    assert lacking(EMPTY, role) == tuple(stages.split())


def test_a_family_that_is_declared_and_has_no_sample_yet_can_be_told():
    declared = "# TYPE vllm:time_to_first_token_seconds histogram\n"

    assert "ttft" in lacking(EMPTY)
    assert "ttft" not in lacking(declared + EMPTY)


def test_a_gateway_is_asked_only_for_what_users_feel():
    assert lacking("litellm_x 1\n") == ("ttft", "itl", "tpot", "e2e")


def test_a_refused_family_is_reported_and_wrong():
    torn = histogram([0.2]).replace('le="+Inf"} 1', 'le="+Inf"} NaN')

    assert "ttft" not in from_start(torn).missing


def test_one_reading_says_it_to_a_person_in_one_line():
    text = describe([from_start("litellm_x 1\n")])

    assert "up (LiteLLM proxy)" in text
    assert "  not reported: ttft, itl, tpot, e2e\n" in text
    assert text.count("not_reported") == 0


def test_our_own_page_shows_it_by_stage():
    own = OwnPage()
    own.update(from_start("litellm_x 1\n"))

    (family,) = [each for each in own.collect() if each.name == "stagewatch_not_reported"]

    told = {sample.labels["reason"]: sample.value for sample in family.samples}
    assert told == {"ttft": 1, "itl": 1, "tpot": 1, "e2e": 1}


def test_a_page_that_tells_everything_has_no_such_line():
    names = [
        spellings(ENGINES[0], row)[0].name
        for row in ENGINES[0].rows
        if row.shape in (Shape.LATENCY, Shape.GAUGE)
    ]
    declared = "".join(f"# TYPE {name} histogram\n" for name in names)

    assert "not reported" not in describe([from_start(declared + EMPTY)])


@pytest.mark.parametrize(
    ("usage", "capacity", "doubted"),
    [(None, 0, False), (0.0, 0, True), (0.0, 100, False), (0.2, 0, False), (0.0, None, False)],
)
def test_a_share_of_nothing_is_doubted_at_once(usage, capacity, doubted):
    assert bool(Cache().doubt(usage, capacity, busy=True)) is doubted


def test_zeros_of_an_idle_engine_prove_nothing():
    cache = Cache()

    assert not any(cache.doubt(0.0, 100, busy=False) for _ in range(100))
    assert not any(cache.doubt(0.0, 100, busy=True) for _ in range(4))
    assert cache.doubt(0.0, 100, busy=True)


def test_a_standstill_is_measured_from_the_last_sign_of_life():
    progress = Progress()

    told = [
        progress.standstill_s({"a": steps}, requests, at_s * 1_000_000_000)
        for at_s, steps, requests in ((0, 1, 1), (3, 1, 1), (4, 2, 1), (9, 2, 1), (11, 2, 0))
    ]

    assert told == [0, 3, 0, 5, 0]
