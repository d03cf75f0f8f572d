"""What AWS says of managed endpoints, for the person on call."""

from dataclasses import replace

import pytest
from dash import html

from collector.query import EndpointReading, EndpointSeries
from dashboard import endpoints
from dashboard.url import ENDPOINTS, View
from domain.endpoint import EndpointKey, PointState
from domain.endpoint_instance import ACCELERATORS, ACCELERATORS_NAMESPACE
from tests.dashboard.reading import find_all, text


def series(
    viewer, service, namespace, name, metric, *told, level="endpoint", settled_s=240, **dimensions
):
    begins = viewer.now_s // 60 * 60 - 600
    points = [
        EndpointReading(
            since_s=begins + 60 * at,
            until_s=begins + 60 * at + 60,
            state=PointState.VALUE if statistics else PointState.NO_DATA,
            statistics=statistics,
            provisional=False,
            fetched_at_s=float(begins + 400),
            revision=1,
            source="poll",
        )
        for at, statistics in enumerate(told)
    ]
    return EndpointSeries(
        key=EndpointKey(
            account="111122223333",
            region="us-east-1",
            namespace=namespace,
            name=name,
            dimensions=tuple(sorted(dimensions.items())),
        ),
        service=service,
        metric=metric,
        unit="s",
        level=level,
        settled_until_s=None if settled_s is None else viewer.now_s - settled_s,
        points=points,
    )


MODEL = {"ModelId": "sonnet"}
VARIANT = {"EndpointName": "<b>llm", "VariantName": "AllTraffic"}
API = {"ApiName": "llm", "Stage": "prod"}
BEDROCK = ("assistant", "AWS/Bedrock")
CHAT = ("chat", "AWS/SageMaker")
INSTANCES = ("chat", "/aws/sagemaker/Endpoints")
GATEWAY = ("gateway", "AWS/ApiGateway")


@pytest.fixture
def told(reader, viewer):
    """What a store says: `told(*series)` shows the page of these."""

    def show(*found, ledger=None, link="/endpoints"):
        reader.world.endpoint_series = list(found)
        view = View.from_link(*link.partition("?")[::2])
        return endpoints.content(reader, ledger, view, viewer)

    yield show
    reader.world.endpoint_series = []


@pytest.fixture
def usual(viewer):
    return [
        series(viewer, *BEDROCK, "Invocations", "invocations", {"Sum": 90.0}, {}, **MODEL),
        series(viewer, *BEDROCK, "InvocationServerErrors", "server_errors", {"Sum": 10.0}, **MODEL),
        series(viewer, *BEDROCK, "InvocationThrottles", "throttles", {"Sum": 100.0}, **MODEL),
        series(
            viewer, *BEDROCK, "TimeToFirstToken", "ttft",
            {"SampleCount": 1000.0, "p99": 0.2, "PR(:2)": 99.0},
            {"SampleCount": 10.0, "p99": 9.0, "PR(:2)": 0.0}, **MODEL,
        ),
        series(viewer, *CHAT, "ModelLatency", "model_latency", {}, **VARIANT),
        series(
            viewer, *BEDROCK, "Invocations", "invocations", {"Sum": 9000.0},
            level="ModelId+Region", **MODEL, Region="r",
        ),
    ]  # fmt: skip


def rows(shown):
    return find_all(find_all(shown.regions["endpoints"], html.Tbody), html.Tr)


def row(shown, name):
    (found,) = [each for each in rows(shown) if text(each).startswith(name)]
    return " ".join(text(found).split())


def test_good_requests_are_counted_and_never_averaged(told, usual):
    found = row(told(*usual), "assistant")

    assert "98 %" in found
    assert "TTFT ≤ 2 s" in found
    assert "49.5" not in found
    assert "9 s TTFT" in found


def test_availability_is_labelled_with_its_definition(told, usual):
    found = row(told(*usual), "assistant")

    assert "45 % if Invocations are successes only" in found
    assert "42.1 % if Invocations are accepted, failed ones included" in found


def test_traffic_under_more_dimensions_is_not_added(told, usual):
    shown = told(*usual)

    assert len(rows(shown)) == 2
    assert "9\u2009000" not in text(shown.regions["endpoints"])


def test_an_endpoint_without_a_value_shows_nothing_and_not_zero(told, usual):
    silent = row(told(*usual), "chat")

    assert "<b>llm" in silent
    assert " 0 " not in silent
    assert "–" in silent
    assert "no traffic" in silent
    assert "4 min ago" in silent


def test_what_may_still_change_is_not_shown_and_the_page_says_up_to_when_it_speaks(told, viewer):
    (young,) = [series(viewer, *BEDROCK, "Invocations", "invocations", {"Sum": 5.0}, {}, **MODEL)]
    settled, other = young.points
    half = replace(other, statistics={"Sum": 999.0}, provisional=True, state=PointState.VALUE)

    shown = told(replace(young, points=[settled, half]))

    assert " 5 " in row(shown, "assistant")
    assert "999" not in row(shown, "assistant")
    assert "as far as it has settled: up to" in text(shown.regions["until"])


def test_calls_that_end_at_a_time_limit_are_told_with_the_way_out(told, viewer):
    calls = [{"SampleCount": 40.0, "Maximum": 29.0 + at / 100, "p50": 6.2} for at in range(3)]
    shown = told(
        series(viewer, *GATEWAY, "IntegrationLatency", "integration_latency", *calls, **API),
        series(viewer, *GATEWAY, "5XXError", "server_errors", {"Sum": 4.0}, **API),
        series(viewer, *GATEWAY, "Count", "invocations", {"SampleCount": 120.0}, **API),
    )

    said = text(shown.regions["findings"])
    assert "in 3 of 3 minutes the slowest calls ended at 29 s" in said
    assert "API Gateway's default for REST APIs" in said
    assert "or stream the answer" in said
    assert "time limit" in row(shown, "gateway")
    assert "4 3.33" in row(shown, "gateway")


def test_throttled_requests_stand_out_from_one_in_a_hundred(told, viewer):
    def of(throttles):
        return told(
            series(viewer, *BEDROCK, "Invocations", "invocations", {"Sum": 990.0}, **MODEL),
            series(
                viewer, *BEDROCK, "InvocationThrottles", "throttles", {"Sum": throttles}, **MODEL
            ),
        )

    assert of(10.0).regions["findings"] is None
    assert "11 requests were turned away" in text(of(11.0).regions["findings"])


@pytest.mark.parametrize("settled_s", [None, 1201])
def test_who_has_not_settled_for_long_is_not_observed_and_comes_first(told, viewer, settled_s):
    one = {"settled_s": settled_s}
    shown = told(
        series(viewer, "a", "AWS/Bedrock", "Invocations", "invocations", {"Sum": 5.0}, **MODEL),
        series(
            viewer, "b", "AWS/Bedrock", "Invocations", "invocations", {"Sum": 5.0}, **one, ModelId="m"
        ),
    )  # fmt: skip

    assert text(rows(shown)[0]).startswith("b")
    assert "not observed" in row(shown, "b")
    assert "look at the exporter's log" in text(shown.regions["findings"])
    assert "1 not observed" in text(shown.regions["state"])


def test_a_window_of_the_past_is_not_stale(told, viewer):
    found = series(
        viewer, *BEDROCK, "Invocations", "invocations", {"Sum": 5.0}, settled_s=9000, **MODEL
    )
    ended = viewer.now_s - 8000

    shown = told(found, link=f"/endpoints?from={ended - 900}&to={ended}")

    assert shown.regions["findings"] is None


@pytest.mark.parametrize(
    ("gpus", "said"),
    [(4.0, "72.5 % busy 4 a machine"), (None, "290 % of N × 100 %, N not known")],
    ids=["known", "unknown"],
)
def test_a_utilisation_that_sums_over_gpus_is_divided_or_named_as_a_sum(told, viewer, gpus, said):
    busy = [{"SampleCount": 1.0, "Sum": 2.8}, {"SampleCount": 1.0, "Sum": 3.0}]
    found = [series(viewer, *INSTANCES, "GPUUtilization", "gpu_utilization", *busy, **VARIANT)]
    if gpus is not None:
        known = ("chat", ACCELERATORS_NAMESPACE, ACCELERATORS, ACCELERATORS, {"Last": gpus})
        found.append(series(viewer, *known, **VARIANT))

    assert said in row(told(*found), "chat")


def test_what_promql_answered_has_a_table_of_its_own(told, viewer):
    answers = [{"Last": 0.7}, {"Last": 0.9}, {"Last": 0.8}]
    shown = told(series(viewer, "chat", "PromQL", "ttft_p99", "ttft_p99", *answers, zone="<i>a"))

    said = text(shown.regions["questions"])
    assert "chat ttft_p99" in said
    assert "zone=<i>a" in said
    assert "0.8 0.7 0.9" in said
    assert shown.regions["endpoints"] is None


def test_columns_that_nobody_fills_are_left_out(told, viewer):
    shown = told(series(viewer, *GATEWAY, "Count", "invocations", {"SampleCount": 1.0}, **API))

    heads = [text(each) for each in find_all(shown.regions["endpoints"], html.Th)]
    assert "GPUs" not in heads
    assert "Answered" not in heads
    assert {"Endpoint", "State", "Requests", "Settled"} <= set(heads)


def test_without_an_endpoint_the_page_says_how_to_begin(told):
    shown = told()

    assert "exporter cloudwatch" in text(shown.regions["endpoints"])
    assert "Endpoints" in text(endpoints.page(View(alone=ENDPOINTS), shown))


def test_the_page_has_an_address():
    view = View.from_link("/endpoints", "?from=now-15m")

    assert (view.page, view.span_s) == (ENDPOINTS, 900)
    assert view.link() == "/endpoints?from=now-15m"
    assert View.from_link(*view.link().split("?")) == view
