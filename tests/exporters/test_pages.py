"""Page files as exports: in order, at the time they were scraped, and refused when they are not."""

import os

import pytest

from domain.errors import InputError
from exporters.engine.pages import export_requests, read_pages
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
