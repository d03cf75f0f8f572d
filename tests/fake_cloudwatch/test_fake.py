"""The fake, asked by real boto3: what it answers is what AWS documents, and moto does not do."""

import json
import random
from contextlib import closing
from datetime import UTC, datetime

import botocore.session
import pytest
from botocore.exceptions import ClientError, EventStreamError
from botocore.validate import ParamValidator

from tests.fake_cloudwatch.account import ACCOUNT, Account, AwsError
from tests.fake_cloudwatch.clients import client
from tests.fake_cloudwatch.control import (
    add_component,
    add_endpoint,
    describe_endpoint,
    list_components,
    list_endpoints,
)
from tests.fake_cloudwatch.metric_data import get_metric_data, list_metrics
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.fake_cloudwatch.statistic import statistic
from tests.paths import RECORDED

T0 = 1_780_000_020
SAGEMAKER = "AWS/SageMaker"
VARIANT = {"EndpointName": "llm-prod", "VariantName": "AllTraffic"}
SAMPLES = RECORDED / "cloudwatch"


@pytest.fixture
def fake():
    with fake_cloudwatch(now=lambda: T0 + 3600) as server:
        yield server


def query(stat, *, id_="m0", name="ModelLatency", dimensions=VARIANT, period=60, **more):
    metric = {
        "Namespace": SAGEMAKER,
        "MetricName": name,
        "Dimensions": [{"Name": k, "Value": v} for k, v in dimensions.items()],
    }
    return {"Id": id_, "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}, **more}


def asked(url, queries, since_s=T0, until_s=T0 + 600, **more):
    return client("cloudwatch", url).get_metric_data(
        MetricDataQueries=queries,
        StartTime=datetime.fromtimestamp(since_s, UTC),
        EndTime=datetime.fromtimestamp(until_s, UTC),
        **more,
    )


def points(answer, id_="m0"):
    (found,) = [each for each in answer["MetricDataResults"] if each["Id"] == id_]
    stamps = [int(at.timestamp()) for at in found["Timestamps"]]
    return dict(zip(stamps, found["Values"], strict=True))


def test_boto3_speaks_json_to_cloudwatch_and_the_fake_understands_it(fake):
    cloudwatch = client("cloudwatch", fake.url)

    cloudwatch.list_metrics()

    assert cloudwatch.meta.service_model.resolved_protocol == "json"
    ((target, content_type, authorization),) = fake.account.requests
    assert target == "GraniteServiceVersion20100801.ListMetrics"
    assert content_type == "application/x-amz-json-1.0"
    assert "/us-east-1/monitoring/aws4_request" in authorization


def test_a_request_on_the_wire_looks_like_the_recorded_one(fake):
    recorded = json.loads((SAMPLES / "gmd_request_wire.json").read_text())["body"]
    stats = [each["MetricStat"]["Stat"] for each in recorded["MetricDataQueries"]]
    queries = [query(stat, id_=f"m{at}", ReturnData=True) for at, stat in enumerate(stats)]

    asked(
        fake.url,
        queries,
        recorded["StartTime"],
        recorded["EndTime"],
        ScanBy="TimestampAscending",
    )

    ((_, body, _),) = fake.account.calls
    assert body == recorded


def test_percentiles_are_of_the_raw_samples_and_pr_is_a_share():
    values = [float(value) for value in range(1, 101)]
    random.Random(1).shuffle(values)  # noqa: S311 - any order will do

    assert statistic("p50", values) == 50.5
    assert statistic("p99", values) == pytest.approx(99.01)
    assert statistic("PR(:25)", values) == 25
    assert statistic("PR(10:25)", values) == 15
    assert statistic("tm50", values) == pytest.approx(25.5)
    assert statistic("SampleCount", values) == 100


def test_periods_are_aligned_to_the_clock_and_the_window_is_half_open(fake):
    for minute in range(3):
        fake.account.put(SAGEMAKER, "ModelLatency", VARIANT, T0 + 60 * minute + 17, [1.0])

    found = points(asked(fake.url, [query("Sum")], T0 + 23, T0 + 120))

    assert found == {T0: 1.0, T0 + 60: 1.0}


def test_dimensions_are_a_set_and_namespaces_are_apart(fake):
    fake.account.put(SAGEMAKER, "ModelLatency", VARIANT, T0, [1.0])
    fake.account.put("Other", "ModelLatency", VARIANT, T0, [5.0])
    backwards = dict(reversed(VARIANT.items()))

    assert points(asked(fake.url, [query("Sum", dimensions=backwards)])) == {T0: 1.0}


def test_a_late_sample_changes_a_point_once_it_is_visible(fake):
    fake.account.put(SAGEMAKER, "ModelLatency", VARIANT, T0, [11.0])
    fake.account.put(SAGEMAKER, "ModelLatency", VARIANT, T0, [51.0], visible_at_s=T0 + 900)

    fake.account.now = lambda: T0 + 899
    assert points(asked(fake.url, [query("Sum")])) == {T0: 11.0}
    fake.account.now = lambda: T0 + 900
    assert points(asked(fake.url, [query("Sum")])) == {T0: 62.0}


def test_a_query_with_a_unit_finds_nothing(fake):
    fake.account.put(SAGEMAKER, "ModelLatency", VARIANT, T0, [11.0])
    wanted = query("Sum")
    wanted["MetricStat"]["Unit"] = "Milliseconds"

    assert points(asked(fake.url, [wanted])) == {}


def test_pages_cut_an_id_in_two_and_say_so(fake):
    for minute in range(10):
        for name in ("a", "b", "c"):
            fake.account.put(SAGEMAKER, name, VARIANT, T0 + 60 * minute, [1.0])
    queries = [query("Sum", id_=f"a{at}", name=name) for at, name in enumerate("abc")]
    paginator = client("cloudwatch", fake.url).get_paginator("get_metric_data")

    pages = paginator.paginate(
        MetricDataQueries=queries,
        StartTime=datetime.fromtimestamp(T0, UTC),
        EndTime=datetime.fromtimestamp(T0 + 600, UTC),
        MaxDatapoints=12,
    )
    told = [
        [
            (each["Id"], len(each["Values"]), each["StatusCode"])
            for each in page["MetricDataResults"]
        ]
        for page in pages
    ]

    assert told == [
        [("a0", 10, "Complete"), ("a1", 2, "PartialData"), ("a2", 0, "PartialData")],
        [("a1", 8, "Complete"), ("a2", 4, "PartialData")],
        [("a2", 6, "Complete")],
    ]
    assert fake.account.billed == 3


def test_five_statistics_of_a_metric_are_one_on_the_bill_and_a_sixth_is_two(fake):
    five = ["SampleCount", "Sum", "p50", "p99", "PR(:2)"]
    asked(fake.url, [query(stat, id_=f"m{at}") for at, stat in enumerate(five)])
    assert fake.account.billed == 1

    asked(fake.url, [query(stat, id_=f"m{at}") for at, stat in enumerate([*five, "p90"])])
    assert fake.account.billed == 3


@pytest.mark.parametrize(
    "queries",
    [
        [query("Sum", id_=f"m{at}") for at in range(501)],
        [query("Sum"), query("p99")],
        [query("Sum", id_="M0")],
        [query("p101")],
        [query("Sum", period=7)],
    ],
    ids=["501 queries", "an id twice", "an id in capitals", "no statistic", "no period"],
)
def test_what_aws_refuses_is_refused(fake, queries):
    with pytest.raises(ClientError, match="ValidationError"):
        asked(fake.url, queries)
    assert fake.account.billed == 0


def test_throttling_ends_and_is_told_as_aws_tells_it(fake):
    recorded = json.loads((SAMPLES / "error_throttling.json").read_text())
    fake.account.throttle_next = 1

    with pytest.raises(ClientError) as refused:
        client("cloudwatch", fake.url).list_metrics()

    answer = refused.value.response
    assert answer["Error"]["Code"] == "Throttling"
    assert answer["Error"]["Message"] == recorded["body"]["message"]
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == recorded["status"]
    client("cloudwatch", fake.url).list_metrics()


def test_a_share_of_calls_is_throttled_at_random_but_the_same_in_every_run():
    def outcomes():
        account = Account(throttle_share=0.3)
        for _ in range(1000):
            try:
                account.admit({})
                yield True
            except AwsError:
                yield False

    first = list(outcomes())

    assert first == list(outcomes())
    assert 250 < first.count(False) < 350


def test_a_fault_of_one_id_leaves_the_others_alone(fake):
    fake.account.put(SAGEMAKER, "ModelLatency", VARIANT, T0, [1.0])
    fake.account.faults = {"m0": "InternalError"}

    answer = asked(fake.url, [query("Sum"), query("p99", id_="m1")])

    told = {
        each["Id"]: (each["StatusCode"], each["Values"]) for each in answer["MetricDataResults"]
    }
    assert told == {"m0": ("InternalError", []), "m1": ("Complete", [1.0])}


def test_list_metrics_lists_a_series_once_pages_and_forgets_the_silent(fake):
    for number in range(501):
        fake.account.put(SAGEMAKER, "Invocations", {"EndpointName": f"e{number}"}, T0, [1.0])
        fake.account.put(SAGEMAKER, "Invocations", {"EndpointName": f"e{number}"}, T0 + 60, [1.0])
    fake.account.put(SAGEMAKER, "Invocations", {"EndpointName": "old"}, T0 - 20_000, [1.0])
    pages = client("cloudwatch", fake.url).get_paginator("list_metrics")

    every = [len(page["Metrics"]) for page in pages.paginate(Namespace=SAGEMAKER)]
    recent = [len(page["Metrics"]) for page in pages.paginate(RecentlyActive="PT3H")]

    assert every == [500, 2]
    assert recent == [500, 1]


def test_linked_accounts_are_listed_where_they_are_asked_for(fake):
    fake.account.put(SAGEMAKER, "Invocations", VARIANT, T0, [1.0])
    fake.account.put(SAGEMAKER, "Invocations", VARIANT, T0, [2.0], account="444455556666")
    cloudwatch = client("cloudwatch", fake.url)

    own = cloudwatch.list_metrics()
    every = cloudwatch.list_metrics(IncludeLinkedAccounts=True)
    there = asked(fake.url, [query("Sum", name="Invocations", AccountId="444455556666")])

    assert len(own["Metrics"]) == 1
    assert "OwningAccounts" not in own
    assert every["OwningAccounts"] == [ACCOUNT, "444455556666"]
    assert points(there) == {T0: 2.0}


def test_sagemaker_lists_its_endpoints_page_by_page_with_variants_and_components(fake):
    for number in range(11):
        add_endpoint(fake.account, f"LLM-{number}", variants=("blue", "green"))
    add_component(fake.account, "Llama-70B-IC", "LLM-0", variant="blue")
    sagemaker = client("sagemaker", fake.url)

    names = [
        endpoint["EndpointName"]
        for page in sagemaker.get_paginator("list_endpoints").paginate()
        for endpoint in page["Endpoints"]
    ]
    described = sagemaker.describe_endpoint(EndpointName="LLM-3")

    assert names == [f"LLM-{number}" for number in range(11)]
    assert [v["VariantName"] for v in described["ProductionVariants"]] == ["blue", "green"]
    (component,) = sagemaker.list_inference_components()["InferenceComponents"]
    assert component["InferenceComponentName"] == "Llama-70B-IC"
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.describe_endpoint(EndpointName="nobody")


def test_every_answer_fits_botocores_own_model_of_the_service():
    account = Account(now=lambda: T0 + 600)
    account.put(SAGEMAKER, "ModelLatency", VARIANT, T0, [1.0])
    add_endpoint(account, "llm-prod")
    add_component(account, "Llama", "llm-prod")
    window = {"StartTime": T0, "EndTime": T0 + 600}
    answers = {
        ("cloudwatch", "GetMetricData"): get_metric_data(
            account, {"MetricDataQueries": [query("p99")], "MaxDatapoints": 1, **window}
        ),
        ("cloudwatch", "ListMetrics"): list_metrics(account, {"IncludeLinkedAccounts": True}),
        ("sagemaker", "ListEndpoints"): list_endpoints(account, {}),
        ("sagemaker", "DescribeEndpoint"): describe_endpoint(account, {"EndpointName": "llm-prod"}),
        ("sagemaker", "ListInferenceComponents"): list_components(account, {}),
    }
    session = botocore.session.get_session()

    for (service, operation), answer in answers.items():
        shape = session.get_service_model(service).operation_model(operation).output_shape
        report = ParamValidator().validate(answer, shape)
        assert not report.has_errors(), report.generate_report()
        assert set(answer) <= set(shape.members)


@pytest.mark.parametrize("name", ["gmd_ok_five_stats.json", "list_metrics_sagemaker.json"])
def test_recorded_answers_fit_the_model_too(name):
    answer = json.loads((SAMPLES / name).read_text())
    operation = "GetMetricData" if name.startswith("gmd") else "ListMetrics"
    model = botocore.session.get_session().get_service_model("cloudwatch")

    report = ParamValidator().validate(answer, model.operation_model(operation).output_shape)

    assert not report.has_errors(), report.generate_report()


def test_converse_streams_tokens_and_a_break_comes_after_some(fake):
    runtime = client("bedrock-runtime", fake.url)
    messages = [{"role": "user", "content": [{"text": "hi"}]}]

    whole = list(runtime.converse_stream(modelId="m", messages=messages)["stream"])
    fake.account.break_at = 3
    seen = []

    def read():
        with closing(runtime.converse_stream(modelId="m", messages=messages)["stream"]) as stream:
            for event in stream:
                seen.append(next(iter(event)))  # noqa: PERF401 - what came before the break counts

    with pytest.raises(EventStreamError, match="gave up"):
        read()
    assert whole[-1]["metadata"]["usage"]["outputTokens"] == 5
    assert seen == ["messageStart", *["contentBlockDelta"] * 3]


def test_sagemaker_streams_parts(fake):
    runtime = client("sagemaker-runtime", fake.url)

    answer = runtime.invoke_endpoint_with_response_stream(EndpointName="llm-prod", Body=b"{}")

    assert len([event for event in answer["Body"] if "PayloadPart" in event]) == 5


def test_the_recorded_event_stream_is_the_recorded_events():
    from botocore.eventstream import EventStreamBuffer

    buffer = EventStreamBuffer()
    buffer.add_data((SAMPLES / "converse_stream.eventstream.bin").read_bytes())

    told = [{f.headers[":event-type"]: json.loads(f.payload)} for f in buffer]

    assert told == json.loads((SAMPLES / "converse_stream_events.json").read_text())
