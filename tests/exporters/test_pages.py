"""Page files as exports: in order, at the time they were scraped, and refused when they are not."""

import os

import pytest

from domain.errors import InputError
from exporters.engine.pages import export_requests, read_pages, readings
from tests.exporters.pages_of import SECOND_NS
from tests.paths import RECORDED

OVERLOAD = RECORDED / "vllm" / "overload"
LABELS = {"service": "chat", "replica": "r0"}


def points(request, name):
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    return [
        point
        for metric in metrics
        if metric.name == name
        for point in (*metric.gauge.data_points, *metric.sum.data_points)
    ]


def test_our_comment_line_says_when_a_page_was_scraped():
    ((_, at_ns),) = read_pages([OVERLOAD / "98-after.prom"])

    assert at_ns == 1795965889_561254193


def test_without_the_line_the_file_says_it(tmp_path):
    path = tmp_path / "00.prom"
    path.write_text("a 1\n")
    os.utime(path, ns=(5 * SECOND_NS, 7 * SECOND_NS))

    assert list(read_pages([path])) == [("a 1\n", 7 * SECOND_NS)]


def test_every_page_is_one_export_at_its_own_time():
    paths = sorted(OVERLOAD.glob("*.prom"))

    requests = list(export_requests(read_pages(paths), LABELS))

    assert len(requests) == len(paths)
    times = [points(each, "stagewatch_up")[0].time_unix_nano for each in requests]
    assert times == [at_ns for _, at_ns in read_pages(paths)]
    started = [
        p.as_double for each in requests for p in points(each, "stagewatch_requests_started_total")
    ]
    assert sum(started) == 144


def test_the_same_files_give_the_same_bytes():
    def once():
        pages = read_pages(sorted(OVERLOAD.glob("*.prom")))
        return [each.SerializeToString() for each in export_requests(pages, LABELS)]

    assert once() == once()


def test_pages_out_of_order_are_refused():
    pages = [("a 1\n", 2 * SECOND_NS), ("a 1\n", SECOND_NS)]

    with pytest.raises(InputError, match="not newer than the page before"):
        list(export_requests(pages, LABELS))


def test_a_page_that_is_none_is_a_failed_scrape_and_the_next_goes_on():
    good = 'vllm:generation_tokens_total{model_name="m"} '
    pages = [(good + "1\n", 1), ("", 2), ("<html>\n", 3), (good + "5\n", 4)]

    requests = list(export_requests(pages, LABELS))

    ups = [points(each, "stagewatch_up")[0].as_double for each in requests]
    assert ups == [1, 0, 0, 1]
    (tokens,) = points(requests[3], "stagewatch_generation_tokens_total")
    assert (tokens.as_double, tokens.start_time_unix_nano) == (4, 1)


def test_a_file_that_is_no_text_is_refused_with_its_name(tmp_path):
    path = tmp_path / "00.prom"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(InputError, match=r"00\.prom: is not text"):
        list(read_pages([path]))


def only(text, at_ns=2_000 * SECOND_NS):
    (reading,) = readings([(text, at_ns)], LABELS)
    return reading


TOKENS = 'vllm:generation_tokens_total{model_name="m"} 7\n'


def test_an_only_page_tells_all_since_the_engine_started():
    reading = only(f"process_start_time_seconds 1500.5\n{TOKENS}")

    (tokens,) = [one for one in reading.increments if one.metric == "generation_tokens"]
    assert tokens.by == 7
    assert tokens.start_at_ns == 1500_500_000_000


def test_without_a_start_time_its_oldest_family_says_when():
    reading = only(
        f"vllm:generation_tokens_created 1700\nvllm:prompt_tokens_created 1600\n{TOKENS}"
    )

    (tokens,) = [one for one in reading.increments if one.metric == "generation_tokens"]
    assert tokens.start_at_ns == 1600 * SECOND_NS


@pytest.mark.parametrize(
    "start", ["", "process_start_time_seconds 5000\n", "process_start_time_seconds NaN\n"]
)
def test_a_start_that_cannot_be_is_a_second_before(start):
    reading = only(start + TOKENS)

    (tokens,) = [one for one in reading.increments if one.metric == "generation_tokens"]
    assert (tokens.by, tokens.start_at_ns) == (7, 1999 * SECOND_NS)


def test_an_engine_that_runs_for_days_is_told_in_an_interval_that_the_collector_takes():
    at_ns = 10 * 86_400 * SECOND_NS

    reading = only(f"process_start_time_seconds 5\n{TOKENS}", at_ns)

    (tokens,) = [one for one in reading.increments if one.metric == "generation_tokens"]
    assert 0 < at_ns - tokens.start_at_ns < 36 * 3600 * SECOND_NS


def test_of_several_pages_the_first_is_only_where_counting_begins():
    both = list(readings([(TOKENS, SECOND_NS), (TOKENS.replace("7", "9"), 2 * SECOND_NS)], LABELS))

    assert not both[0].increments
    assert [one.by for one in both[1].increments if one.metric == "generation_tokens"] == [2]


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted((RECORDED / "engines").glob("*.prom"))]
)
def test_every_engines_page_is_one_export(name):
    path = RECORDED / "engines" / f"{name}.prom"

    (request,) = export_requests(read_pages([path]), LABELS)

    (up,) = points(request, "stagewatch_up")
    assert up.as_double == (0 if "jsonescaped" in name else 1)
