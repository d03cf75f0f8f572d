"""What AWS says of managed endpoints, for the person on call."""

import pytest
from dash import html

from collector.query import EndpointReading, EndpointSeries
from dashboard import endpoints
from dashboard.url import ENDPOINTS, View
from domain.endpoint import EndpointKey, PointState
from tests.dashboard.reading import find_all, text


def series(viewer, service, namespace, name, metric, *told, level="endpoint", **dimensions):
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
        settled_until_s=viewer.now_s - 240,
        points=points,
    )


@pytest.fixture
def told(reader, viewer):
    model = {"ModelId": "sonnet"}
    bedrock = ("assistant", "AWS/Bedrock")
    reader.world.endpoint_series = [
        series(viewer, *bedrock, "Invocations", "invocations", {"Sum": 90.0}, {}, **model),
        series(viewer, *bedrock, "InvocationServerErrors", "server_errors", {"Sum": 10.0}, **model),
        series(viewer, *bedrock, "InvocationThrottles", "throttles", {"Sum": 100.0}, **model),
        series(
            viewer,
            *bedrock,
            "TimeToFirstToken",
            "ttft",
            {"SampleCount": 1000.0, "p99": 0.2, "PR(:2)": 99.0},
            {"SampleCount": 10.0, "p99": 9.0, "PR(:2)": 0.0},
            **model,
        ),
        series(
            viewer,
            "chat",
            "AWS/SageMaker",
            "ModelLatency",
            "model_latency",
            {},
            EndpointName="<b>llm",
        ),
        series(
            viewer,
            *bedrock,
            "Invocations",
            "invocations",
            {"Sum": 9000.0},
            level="ModelId+Region",
            ModelId="sonnet",
            Region="r",
        ),
    ]
    yield reader
    reader.world.endpoint_series = []


def rows(shown):
    return find_all(find_all(shown.regions["endpoints"], html.Tbody), html.Tr)


def test_good_requests_are_counted_and_never_averaged(told, ledger, viewer):
    first, _ = rows(endpoints.content(told, ledger, View(alone=ENDPOINTS), viewer))

    assert "98 % TTFT ≤ 2 s" in text(first)
    assert "49.5" not in text(first)
    assert "TTFT 9 s" in text(first)


def test_availability_is_labelled_with_its_definition(told, ledger, viewer):
    first, _ = rows(endpoints.content(told, ledger, View(alone=ENDPOINTS), viewer))

    assert "45 % if Invocations are successes only" in text(first)
    assert "if Invocations are accepted, failed ones included" in text(first)


def test_traffic_under_more_dimensions_is_not_added(told, ledger, viewer):
    shown = endpoints.content(told, ledger, View(alone=ENDPOINTS), viewer)

    assert len(rows(shown)) == 2
    assert "9\u2009000" not in text(shown.regions["endpoints"])


def test_an_endpoint_without_a_value_shows_nothing_and_not_zero(told, ledger, viewer):
    _, silent = rows(endpoints.content(told, ledger, View(alone=ENDPOINTS), viewer))

    assert "<b>llm" in text(silent)
    assert " 0 " not in text(silent)
    assert "–" in text(silent)
    assert "4 min ago" in text(silent)


def test_without_an_endpoint_the_page_says_how_to_begin(reader, ledger, viewer):
    shown = endpoints.content(reader, ledger, View(alone=ENDPOINTS), viewer)

    assert "exporter cloudwatch" in text(shown.regions["endpoints"])
    assert "Endpoints" in text(endpoints.page(View(alone=ENDPOINTS), shown))


def test_the_page_has_an_address():
    view = View.from_link("/endpoints", "?from=now-15m")

    assert (view.page, view.span_s) == (ENDPOINTS, 900)
    assert view.link() == "/endpoints?from=now-15m"
    assert View.from_link(*view.link().split("?")) == view
