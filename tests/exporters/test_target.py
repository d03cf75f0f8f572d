"""One target over time: restarts, families that come and go, torn pages, clocks."""

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.distribution import add_all
from domain.metric import METRICS
from exporters.engine.engines import ENGINES, WANTED
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.table import Shape, spellings
from exporters.engine.target import TargetState
from tests.exporters.pages_of import (
    NOTHING_YET,
    SECOND_NS,
    increments,
    latency,
    level,
    page,
    scrapes,
)
from tests.paths import RECORDED

TTFT = "vllm:time_to_first_token_seconds"
TARGET = (("replica", "r0"), ("service", "chat"))
DOWN = ScrapeError("timeout", "no whole page", where="engine", remedy="Wait.")


def histogram(values, *, edges=(0.1, 0.25, 1.0), name=TTFT, labels='model_name="m"', total=None):
    """The page text of a histogram that holds these values."""
    lines = [
        f'{name}_bucket{{{labels},le="{edge}"}} {sum(value <= edge for value in values)}'
        for edge in edges
    ]
    lines.append(f'{name}_bucket{{{labels},le="+Inf"}} {len(values)}')
    lines.append(f"{name}_sum{{{labels}}} {math.fsum(values) if total is None else total!r}")
    lines.append(f"{name}_count{{{labels}}} {len(values)}")
    return "\n".join(lines) + "\n"


def started(at_s):
    return f"process_start_time_seconds {at_s!r}\n"


def test_the_first_page_is_only_where_counting_begins():
    state = TargetState(TARGET)

    reading = state.observe(page(histogram([0.2])), SECOND_NS)

    assert reading.up
    assert not reading.latencies
    assert not reading.increments


def test_from_zero_tells_all_that_the_engine_counted():
    state = TargetState(TARGET, from_zero=True)

    assert latency(state.observe(page(histogram([0.2])), SECOND_NS), "ttft").n == 1


def test_an_interval_runs_from_the_last_scrape_to_this_one():
    (first, second) = scrapes(histogram([]), histogram([0.2]), histogram([0.2, 0.3]))

    assert first.latencies[0].start_at_ns == SECOND_NS
    assert second.latencies[0].start_at_ns == 2 * SECOND_NS
    assert second.at_ns == 3 * SECOND_NS


def test_what_happened_during_failed_scrapes_is_in_the_next_good_one():
    state = TargetState(TARGET)
    state.observe(page(histogram([0.2])), SECOND_NS)
    down = state.failed(DOWN, 2 * SECOND_NS)

    reading = state.observe(page(histogram([0.2, 0.3, 0.4])), 3 * SECOND_NS)

    assert not down.up
    assert latency(reading, "ttft").n == 2
    assert reading.latencies[0].start_at_ns == SECOND_NS


def test_a_failed_scrape_says_why_and_nothing_else():
    state = TargetState(TARGET)

    reading = state.failed(DOWN, SECOND_NS)

    assert [dict(one.labels)["reason"] for one in reading.levels] == ["timeout"]
    assert level(reading, "up") == 0
    assert increments(reading, "failed_scrapes", by="reason") == {"timeout": 1}
    assert "no whole page" in reading.notes[0]


def test_up_carries_the_model_so_that_a_question_about_a_model_finds_it():
    state = TargetState(TARGET)
    before = state.failed(DOWN, SECOND_NS)
    good = state.observe(page('vllm:num_requests_running{model_name="m"} 0\n'), 2 * SECOND_NS)
    after = state.failed(DOWN, 3 * SECOND_NS)

    def models(reading):
        return [dict(one.labels).get("model") for one in reading.levels if one.metric == "up"]

    assert (models(before), models(good), models(after)) == ([None], ["m"], ["m"])


def test_a_family_that_was_not_there_before_begins_at_zero():
    (reading,) = scrapes(NOTHING_YET, histogram([0.2, 0.3]))

    assert latency(reading, "ttft").n == 2


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_what_a_torn_first_page_does_not_show_does_not_begin_at_zero(share):
    whole = (RECORDED / "engines" / "vllm-0.33.0-multi_engine.prom").read_text()
    cut, state = whole[: int(len(whole) * share)].rstrip("\n"), TargetState((("service", "chat"),))
    state.observe(page(cut), 1_000)

    now, later = state.observe(page(whole), 2_000), state.observe(page(whole), 3_000)

    assert not [each for each in (*now.latencies, *later.latencies) if each.distribution.n]
    assert not [each for each in (*now.increments, *later.increments) if each.by]


def test_a_family_refused_on_the_first_page_does_not_begin_at_zero():
    whole = (RECORDED / "engines" / "vllm-0.33.0-agg.prom").read_text()
    denied = re.sub(r"(vllm:e2e_request_latency_seconds_count\{[^}]*\}) \S+", r"\1 3", whole)
    state = TargetState((("service", "chat"),))
    first = state.observe(page(denied), 1_000)

    now = state.observe(page(whole), 2_000)

    assert [each.metric for each in first.increments] == ["refused_families"]
    assert not [each for each in now.latencies if each.distribution.n]


def test_a_series_that_was_missing_for_one_page_is_not_counted_again():
    both = histogram([0.2] * 50) + histogram([0.3] * 7, labels='model_name="n"')
    one = histogram([0.2] * 50)

    readings = scrapes(both, one, both.replace("} 7\n", "} 8\n"))

    assert sum(each.distribution.n for each in readings[1].latencies) == 1


def test_a_torn_page_neither_drifts_nor_counts_twice():
    whole = histogram([0.2] * 5) + 'vllm:num_requests_running{model_name="m"} 3\n'
    cut = whole[: whole.index("_sum")]

    torn, again = scrapes(whole, cut, whole)

    assert torn.up
    assert increments(torn, "schema_drift") is None
    assert increments(torn, "refused_families", by="reason") == {"ttft": 1}
    assert any("middle of a line" in note for note in torn.notes)
    assert latency(again, "ttft") is None
    assert increments(again, "requests_started") == 0


@pytest.mark.parametrize("line", ["_count{", '_bucket{model_name="m",le="+Inf"'])
def test_a_family_without_its_count_or_its_last_bucket_is_refused(line):
    text = histogram([0.2])
    without = "".join(each + "\n" for each in text.splitlines() if line not in each)

    (reading,) = scrapes(
        histogram([]), without + 'vllm:generation_tokens_total{model_name="m"} 9\n'
    )

    assert latency(reading, "ttft") is None
    assert increments(reading, "refused_families", by="reason") == {"ttft": 1}
    assert increments(reading, "generation_tokens") == 9


@pytest.mark.parametrize(
    "broken",
    [
        histogram([0.2]).replace('le="+Inf"} 1', 'le="+Inf"} NaN'),
        histogram([0.2]).replace('le="0.25"} 1', 'le="0.25"} 0.5'),
        histogram([0.2]).replace('le="0.1"} 0', 'le="0.1"} -1'),
        histogram([0.2], edges=(-1.0, 0.25)),
        histogram([0.2]).replace('_count{model_name="m"} 1', '_count{model_name="m"} 2'),
        histogram([0.2]).replace('le="0.1"', 'xe="0.1"'),
        histogram([0.2]) + f'{TTFT}_count{{model_name="m"}} 3\n',
        f"# TYPE {TTFT} gauge\n" + histogram([0.2]),
        histogram([0.2]) + f'{TTFT}_bucket{{le="0.5" 3\n',
    ],
    ids=["nan", "half", "negative", "edge", "count", "no-le", "twice", "type", "malformed"],
)
def test_a_family_that_contradicts_itself_is_refused_and_the_next_page_is_right(broken):
    wrong, right = scrapes(histogram([]), broken, histogram([0.2, 0.3]))

    assert latency(wrong, "ttft") is None
    assert increments(wrong, "refused_families", by="reason") == {"ttft": 1}
    assert latency(right, "ttft").n == 2


def test_a_restart_shows_as_soon_as_one_bucket_falls():
    before = histogram([0.05] * 3 + [0.5] * 3)
    after = histogram([0.05] * 9 + [0.2])  # every cumulated count has grown

    (reading,) = scrapes(before, after)

    assert latency(reading, "ttft").n == 10
    assert increments(reading, "counter_resets") == 1


def test_a_newer_start_time_is_a_restart_though_every_count_has_grown():
    text = 'vllm:generation_tokens_total{model_name="m"} '
    (reading,) = scrapes(
        started(1000.0) + histogram([0.05]) + text + "10\n",
        started(2000.0) + histogram([0.05] * 3) + text + "12\n",
    )

    assert latency(reading, "ttft").n == 3
    assert increments(reading, "generation_tokens") == 12
    assert increments(reading, "counter_resets") == 1


def test_a_newer_creation_time_is_a_restart_of_its_family():
    made = TTFT + '_created{model_name="m"} '
    (reading,) = scrapes(
        histogram([0.05]) + made + "1.79e9\n", histogram([0.05] * 3) + made + "1.795e9\n"
    )

    assert latency(reading, "ttft").n == 3


def test_a_start_time_that_wobbles_is_no_restart():
    (reading,) = scrapes(
        started(1000.0) + histogram([0.05]), started(1000.9) + histogram([0.05] * 3)
    )

    assert latency(reading, "ttft").n == 2


def test_several_engines_behind_one_address_are_found_out():
    a, b = started(1000.0) + histogram([0.2] * 90), started(2000.0) + histogram([0.2] * 80)

    readings = scrapes(b, a, b, a, b)

    assert [reading.up for reading in readings] == [False, True, False, True]
    assert not any(reading.latencies for reading in readings)
    assert "several processes" in readings[0].notes[0]


def test_other_edges_after_a_restart_are_taken_as_they_come():
    (reading,) = scrapes(histogram([0.2] * 5), histogram([0.2], edges=(0.15, 0.3)))

    assert latency(reading, "ttft").at_most(0.3) == (1, 1)


def test_a_bucket_that_is_missing_from_one_page_makes_it_coarser_and_not_wrong():
    fine, coarse = histogram([0.05] * 1000), histogram([0.05] * 1000 + [0.2], edges=(0.1, 1.0))

    first, second = scrapes(fine, coarse, histogram([0.05] * 1000 + [0.2, 0.3]))

    assert latency(first, "ttft").n == 1
    assert latency(second, "ttft").n == 1


def test_a_family_that_vanishes_drifts_once_and_comes_back():
    full = histogram([0.2]) + 'vllm:num_requests_running{model_name="m"} 3\n'
    bare = 'vllm:num_requests_running{model_name="m"} 3\n'

    gone, still_gone, back = scrapes(full, bare, bare, full)

    assert increments(gone, "schema_drift", by="reason") == {"ttft": 1, "requests_started": 1}
    assert increments(still_gone, "schema_drift") is None
    assert still_gone.absent == ("requests_started", "ttft")
    assert back.absent == ()
    assert latency(back, "ttft") is None


def test_the_family_read_before_goes_on_being_read():
    old = "vllm:time_per_output_token_seconds"
    new = "vllm:inter_token_latency_seconds"
    first = histogram([0.2] * 100, name=old)
    both = histogram([0.2] * 130, name=old) + histogram([0.2] * 130, name=new)

    readings = scrapes(first, both)

    assert latency(readings[0], "itl").n == 30


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm:", "ray_vllm_"])
def test_every_spelling_of_the_prefix_is_known(prefix):
    name = f"{prefix}time_to_first_token_seconds"

    (reading,) = scrapes(NOTHING_YET, histogram([0.2], name=name))

    assert latency(reading, "ttft").n == 1


def test_two_spellings_on_one_page_count_once():
    names = [f"{prefix}time_to_first_token_seconds" for prefix in ("vllm:", "ray_vllm_")]

    (reading,) = scrapes(NOTHING_YET, "".join(histogram([0.2], name=name) for name in names))

    assert latency(reading, "ttft").n == 1


@pytest.mark.parametrize("value", ["NaN", "-1.0", "+Inf", "1.5"])
def test_a_ratio_that_is_none_is_absent(value):
    (reading,) = scrapes(NOTHING_YET, f'vllm:kv_cache_usage_perc{{model_name="m"}} {value}\n')

    assert level(reading, "kv_cache_usage") is None


def test_a_ratio_of_zero_stays_zero():
    (reading,) = scrapes(NOTHING_YET, 'vllm:kv_cache_usage_perc{model_name="m"} 0.0\n')

    assert level(reading, "kv_cache_usage") == 0


def test_levels_of_ranks_add_up_and_ratios_are_averaged():
    (reading,) = scrapes(
        NOTHING_YET,
        'vllm:num_requests_running{engine="0",model_name="m"} 3\n'
        'vllm:num_requests_running{engine="1",model_name="m"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.4\n'
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.2\n',
    )

    assert level(reading, "requests_running") == 7
    assert level(reading, "kv_cache_usage") == pytest.approx(0.3)


def test_the_operators_model_wins_over_the_pages():
    state = TargetState((*TARGET, ("model", "ours")), from_zero=True)

    reading = state.observe(page(histogram([0.2])), SECOND_NS)

    assert {dict(one.labels)["model"] for one in reading.latencies} == {"ours"}


@pytest.mark.parametrize("value", ["-5", "NaN", "+Inf"])
def test_a_counter_that_cannot_be_one_is_refused(value):
    name = 'vllm:generation_tokens_total{model_name="m"} '

    wrong, right = scrapes(name + "3\n", name + value + "\n", name + "7\n")

    assert increments(wrong, "generation_tokens") is None
    assert increments(wrong, "refused_families", by="reason") == {"generation_tokens": 1}
    assert increments(right, "generation_tokens") == 4


@pytest.mark.parametrize("total", [math.nan, math.inf, -3.0, 1e6])
def test_a_sum_that_its_counts_deny_is_not_used(total):
    (reading,) = scrapes(histogram([]), histogram([0.2], total=total))

    assert latency(reading, "ttft").n == 1
    assert latency(reading, "ttft").sum_s is None


def test_a_sum_that_grows_without_a_value_is_counted():
    (reading,) = scrapes(histogram([0.2]), histogram([0.2], total=99.0))

    assert latency(reading, "ttft") is None
    assert increments(reading, "refused_sums", by="reason") == {"ttft": 1}


def test_a_clock_that_is_set_back_never_makes_an_interval_that_ends_before_it_begins():
    state = TargetState(TARGET)
    state.observe(page(histogram([])), 10 * SECOND_NS)

    reading = state.observe(page(histogram([0.2])), 5 * SECOND_NS)

    assert reading.at_ns > reading.latencies[0].start_at_ns


def test_a_family_of_too_many_series_is_refused():
    many = "".join(f'vllm:num_requests_running{{x="{number}"}} 1\n' for number in range(2001))

    (reading,) = scrapes(NOTHING_YET, many)

    assert level(reading, "requests_running") is None
    assert increments(reading, "refused_families") == 1


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.title)
def test_every_metric_of_a_table_is_one_of_ours(engine):
    assert {row.metric for row in engine.rows} <= METRICS.keys()


def test_the_tables_read_no_creation_time_as_a_value():
    rows = [(engine, row) for engine in ENGINES for row in engine.rows]

    for engine, row in rows:
        assert not any(each.name.endswith("_created") for each in spellings(engine, row))
    assert {row.shape for _, row in rows} == set(Shape)
    assert "vllm:request_success_created" in WANTED


durations = st.lists(st.floats(1e-6, 50.0), max_size=8)


@given(st.lists(durations, min_size=1, max_size=6), st.sets(st.integers(0, 5)), st.integers(0, 6))
def test_whatever_is_scraped_the_truth_lies_inside(batches, lost, restart_at):
    """Values arrive in batches; some scrapes fail; the engine may restart between two of them."""
    state = TargetState(TARGET)
    state.observe(page(started(1.0) + histogram([])), SECOND_NS)
    held, expected, pending, pairs = [], [], [], []
    for number, batch in enumerate(batches):
        if number == restart_at:
            held, pending = [], []  # what nobody scraped before the restart nobody can know
        held = held + batch
        pending = pending + batch
        if number in lost:
            state.failed(DOWN, (number + 2) * SECOND_NS)
            continue
        text = started(1.0 if number < restart_at else 100.0) + histogram(held)
        reading = state.observe(page(text), (number + 2) * SECOND_NS)
        pairs += [one.distribution for one in reading.latencies]
        assert all(one.by >= 0 for one in reading.increments)
        expected, pending = expected + pending, []

    together = add_all(pairs)
    assert together.n == len(expected)
    for rank, value in enumerate(sorted(expected), start=1):
        found = together.quantile(Fraction(2 * rank - 1, 2 * len(expected)))
        assert found.low_s <= value <= found.high_s


REAL = (RECORDED / "vllm" / "overload" / "05-during.prom").read_text().splitlines()
WILD = st.sampled_from(
    ["0", "-1", "NaN", "+Inf", "-Inf", "1e308", "1e-320", "0.5", "9007199254740993", "x", "", "1 2"]
)


@st.composite
def damaged(draw):
    """A real page with lines lost, doubled, moved, cut and given wild values."""
    lines = list(REAL)
    for _ in range(draw(st.integers(0, 12))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["lose", "double", "swap", "value", "cut", "edge"])):
            case "lose":
                del lines[at : at + draw(st.integers(1, 40))]
                lines = lines or [""]
            case "double":
                lines.insert(at, draw(st.sampled_from(REAL)))
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "value":
                lines[at] = f"{lines[at].rpartition(' ')[0]} {draw(WILD)}"
            case "cut":
                lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
            case _:
                lines[at] = lines[at].replace('le="', f'le="{draw(WILD)}')
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(st.lists(damaged(), min_size=2, max_size=4))
def test_no_damage_to_a_page_makes_a_negative_count_or_an_error(texts):
    state = TargetState(TARGET)
    for number, text in enumerate(texts, start=1):
        try:
            reading = state.observe(page(text), number * SECOND_NS)
        except ScrapeError:
            continue
        assert all(0 <= one.by < 2**54 for one in reading.increments)
        assert all(0 <= one.value < 2**54 for one in reading.levels)
        for one in reading.latencies:
            assert (one.distribution.low >= 0).all()
            assert one.distribution.low.sum() == one.distribution.high.sum() > 0
        export_request(reading)


def test_what_the_operator_declares_is_told_with_every_page_and_the_process_tells_its_cpu():
    target = TargetState(TARGET, declared={"request_slots": 8.0})
    text = histogram([0.2]) + "vllm:num_requests_swapped 3.0\nprocess_cpu_seconds_total "

    target.observe(page(f"{text}10.0\n"), SECOND_NS)
    second = target.observe(page(f"{text}10.9\n"), 2 * SECOND_NS)

    assert level(second, "request_slots") == 8.0
    assert level(second, "requests_swapped") == 3.0
    assert increments(second, "process_cpu") == pytest.approx(0.9)
