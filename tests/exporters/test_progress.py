"""Engines that stand still: a real one that hung for twelve seconds, and those that only wait."""

import pytest

from exporters.engine.failure import ScrapeError
from exporters.engine.target import TargetState
from tests.exporters.pages_of import SECOND_NS, from_start, level, page
from tests.exporters.test_target import TARGET
from tests.paths import RECORDED

HANG = RECORDED / "vllm-hang"
PAGES = {int(path.stem): path.read_text() for path in sorted(HANG.glob("[0-9][0-9].prom"))}
DOWN = ScrapeError("timeout", "no whole page", where="engine", remedy="Wait.")


def vllm(running, *, steps=None, tokens=None, waiting=0):
    text = f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
    text += "" if steps is None else f"vllm:iteration_tokens_total_count {steps}\n"
    return text + ("" if tokens is None else f"vllm:generation_tokens_total {tokens}\n")


def watch(*steps, stall_after_s=5.0):
    """The level at each (second, page text or failure)."""
    state = TargetState(TARGET, stall_after_s=stall_after_s)
    told = {}
    for at_s, what in steps:
        if isinstance(what, str):
            reading = state.observe(page(what), at_s * SECOND_NS)
        else:
            reading = state.failed(what, at_s * SECOND_NS)
        told[at_s] = level(reading, "engine_stalled")
    return told


@pytest.mark.parametrize("after_s", [1, 3, 5, 8, 11])
def test_21_a_hung_engine_is_stalled_from_n_seconds_after_its_last_step_until_it_moves(after_s):
    told = watch(*PAGES.items(), stall_after_s=after_s)

    assert {at_s for at_s, stalled in told.items() if stalled} == {
        at_s for at_s in PAGES if 8 + after_s <= at_s < 20
    }
    assert all(stalled is not None for stalled in told.values())


def test_21_the_queue_that_comes_after_is_not_called_a_stall():
    told = watch(*PAGES.items())

    assert told[21] == told[22] == told[23] == 0


def test_21_the_note_says_how_long_and_how_many():
    state = TargetState(TARGET)
    for at_s in (7, 8, 9, 12):
        state.observe(page(PAGES[at_s]), at_s * SECOND_NS)

    reading = state.observe(page(PAGES[16]), 16 * SECOND_NS)

    assert reading.notes == (
        "the engine stands still: 1 requests are there, and no step and no token came for 8.0 s",
    )


def test_requests_that_only_wait_are_requests_too():
    stuck = vllm(0, steps=7, waiting=6)

    assert watch((1, stuck), (4, stuck), (7, stuck))[7] == 1


def test_an_idle_engine_does_not_stand_still():
    idle = vllm(0, steps=7)

    assert set(watch((1, idle), (100, idle)).values()) == {0}


def test_the_time_runs_from_when_requests_came_and_not_from_the_last_step():
    idle, busy = vllm(0, steps=7), vllm(1, steps=7)

    told = watch((1, idle), (100, idle), (101, busy), (105, busy), (106, busy))

    assert told == {1: 0, 100: 0, 101: 0, 105: 0, 106: 1}


def test_a_step_without_a_token_is_progress():
    told = watch(*((at_s, vllm(1, steps=at_s, tokens=9)) for at_s in (1, 20, 40)))

    assert set(told.values()) == {0}


def test_a_page_that_could_not_be_read_is_no_progress():
    stuck = vllm(1, steps=7)

    told = watch((1, vllm(1, steps=6)), (2, stuck), (4, DOWN), (6, DOWN), (8, stuck))

    assert told == {1: 0, 2: 0, 4: None, 6: None, 8: 1}


def test_requests_that_came_while_nobody_could_look_are_given_their_time():
    told = watch((1, vllm(0, steps=7)), (2, DOWN), (60, vllm(1, steps=7)), (66, vllm(1, steps=7)))

    assert told == {1: 0, 2: None, 60: 0, 66: 1}


def test_a_restart_is_progress():
    stuck = vllm(1, steps=700)

    assert watch((1, stuck), (7, stuck), (9, vllm(1, steps=1)))[9] == 0


@pytest.mark.parametrize(
    "text",
    [
        vllm(3),  # neither steps nor tokens
        "vllm:iteration_tokens_total_count 7\nvllm:generation_tokens_total 9\n",  # no requests
        "sglang:num_running_reqs 3\nsglang:generation_tokens_total 9\n",  # tokens of the finished
        "llamacpp:requests_processing 3\nllamacpp:tokens_predicted_total 9\n",
        "trtllm_num_requests_running 3\ntrtllm_generation_tokens_total 9\n",
        'dynamo_frontend_inflight_requests{model="m"} 3\ndynamo_frontend_output_tokens_total 9\n',
    ],
    ids=["vllm", "no-requests", "sglang", "llamacpp", "trtllm", "frontend"],
)
def test_an_engine_without_anything_live_is_not_judged(text):
    assert watch((1, text), (100, text)) == {1: None, 100: None}


@pytest.mark.parametrize(
    ("busy", "live"),
    [
        ("sglang:num_running_reqs 3\n", 'sglang:realtime_tokens_total{{mode="decode"}} {}\n'),
        ("sglang:num_queue_reqs 3\n", "sglang:forward_execution_seconds_total {}\n"),
        ("tgi_batch_current_size 3\n", 'tgi_batch_inference_count{{method="decode"}} {}\n'),
        ("lmdeploy:num_requests_running 3\n", "lmdeploy:iteration_tokens_total_count {}\n"),
        ("llamacpp:requests_processing 3\n", "llamacpp:n_decode_total {}\n"),
        ("ray_vllm_num_requests_running 3\n", "ray_vllm_iteration_tokens_total_count {}\n"),
        (
            'nv_trt_llm_request_metrics{request_type="active"} 3\n',
            'nv_trt_llm_general_metrics{{general_type="iteration_counter"}} {}\n',
        ),
    ],
    ids=["sglang", "sglang-forward", "tgi", "lmdeploy", "llamacpp", "ray", "triton"],
)
def test_every_engine_with_something_live_is_judged(busy, live):
    def at(count):
        return busy + live.format(count)

    assert watch((1, at(7)), (7, at(7)), (8, at(8))) == {1: 0, 7: 1, 8: 0}


def test_tritons_clock_is_no_iteration():
    name = "nv_trt_llm_general_metrics"
    busy = 'nv_trt_llm_request_metrics{request_type="active"} 3\n'
    busy += f'{name}{{general_type="iteration_counter"}} 7\n'

    told = watch(*((at_s, f'{busy}{name}{{general_type="timestamp"}} {at_s}\n') for at_s in (1, 7)))

    assert told == {1: 0, 7: 1}


def test_finished_requests_of_an_engine_with_live_counters_are_signs_of_life():
    busy = 'sglang:num_running_reqs 3\nsglang:realtime_tokens_total{mode="decode"} 5\n'

    told = watch(*((at_s, f"{busy}sglang:num_requests_total {at_s}\n") for at_s in (1, 9, 17)))

    assert set(told.values()) == {0}


def test_the_level_carries_the_target_and_its_one_model():
    text = 'vllm:num_requests_running{model_name="m"} 1\nvllm:generation_tokens_total 5\n'

    (one,) = [one for one in from_start(text).levels if one.metric == "engine_stalled"]

    assert dict(one.labels) == {
        "engine": "vllm",
        "model": "m",
        "replica": "r0",
        "service": "chat",
        "source": "page",
    }


def test_a_live_counter_that_is_no_number_says_nothing():
    text = "vllm:num_requests_running 1\nvllm:generation_tokens_total NaN\n"

    assert watch((1, text), (7, text)) == {1: 0, 7: 1}
