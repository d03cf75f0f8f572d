"""boto3 and what AWS may answer, in our words."""

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import boto3
import pytest

from domain.errors import ConfigError
from exporters.cloudwatch.asked import asked_of
from exporters.cloudwatch.aws import OLDEST, AwsSource, check_version, session_of
from exporters.cloudwatch.failure import CallError, ThrottledError
from exporters.cloudwatch.query import queries
from tests.exporters.cloudwatch.polling import (
    BEDROCK,
    SAGEMAKER,
    T0,
    VARIANT,
    nobody,
    polling,
    settings_of,
)
from tests.fake_cloudwatch.account import AwsError
from tests.fake_cloudwatch.control import add_component, add_endpoint
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.paths import ROOT

LINKED = "444455556666"


@pytest.fixture
def fake():
    with fake_cloudwatch(now=lambda: T0) as server:
        yield server


@pytest.fixture
def source(fake):
    (scope,) = settings_of(SAGEMAKER, url=fake.url).scopes
    source = AwsSource(scope, session=nobody())
    yield source
    source.close()


@pytest.mark.parametrize(
    ("error", "reason", "retryable"),
    [
        (AwsError("Throttling", "Rate exceeded"), "throttled", True),
        (AwsError("ThrottlingException", "slow"), "throttled", True),
        (AwsError("ExpiredToken", "it is old", 403), "credentials", False),
        (AwsError("AccessDenied", "not you", 403), "forbidden", False),
        (AwsError("ValidationError", "a bad period"), "refused", False),
        (AwsError("InternalServiceFault", "oops", 500), "server_error", True),
        (AwsError("ServiceUnavailable", "later", 503), "server_error", True),
    ],
    ids=lambda each: getattr(each, "code", None),
)
def test_what_aws_refuses_is_told_apart(fake, source, error, reason, retryable):
    fake.account.fail_next = [error]

    with pytest.raises(CallError, match=error.message) as failed:
        source.metrics("AWS/Bedrock", None)

    assert (failed.value.reason, failed.value.retryable) == (reason, retryable)
    assert isinstance(failed.value, ThrottledError) == (reason == "throttled")
    assert len(fake.account.calls) == 1, "botocore tried again behind our back"


def test_nobody_there_and_no_credentials_are_failures_of_a_call():
    (scope,) = settings_of(BEDROCK, url="http://127.0.0.1:9").scopes

    source = AwsSource(scope, session=nobody())
    with pytest.raises(CallError, match="Could not connect") as unreachable:
        source.metrics("AWS/Bedrock", None)
    source.close()

    assert unreachable.value.retryable


def test_without_credentials_a_call_says_so(monkeypatch, fake, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    (scope,) = settings_of(BEDROCK, url=fake.url).scopes
    (with_role,) = settings_of(
        BEDROCK, url=fake.url, scope={"role_arn": "arn:aws:iam::111122223333:role/reader"}
    ).scopes

    with pytest.raises(CallError, match="credentials") as none:
        AwsSource(scope, session=boto3.session.Session(region_name="us-east-1")).metrics("X", None)
    with pytest.raises(ConfigError, match="could assume the role"):
        session_of(with_role)

    assert none.value.reason == "credentials"


def test_a_role_is_assumed_when_the_first_call_needs_it_and_not_again(monkeypatch, fake):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    role = {"role_arn": "arn:aws:iam::111122223333:role/reader", "external_id": "ours"}
    (scope,) = settings_of(BEDROCK, url=fake.url, scope=role).scopes
    source = AwsSource(scope)

    assert fake.account.calls == []
    source.metrics("AWS/Bedrock", None)
    source.metrics("AWS/Bedrock", None)
    source.close()

    ((_, asked, _), *listed) = fake.account.calls
    assert [name for name, *_ in listed] == ["ListMetrics", "ListMetrics"]
    assert asked["RoleArn"] == role["role_arn"]
    assert asked["ExternalId"] == "ours"
    assert asked["RoleSessionName"] == "stagewatch"
    signed = [authorization for target, _, authorization in fake.account.requests if target]
    assert all("Credential=ASSUMED" in each for each in signed)


def test_a_monitoring_account_names_the_account_in_list_and_query(fake):
    fake.account.put("AWS/SageMaker", "Invocations", VARIANT, T0 - 120, [1.0])
    for minute in range(3):
        at_s = T0 - 60 - 60 * minute
        fake.account.put("AWS/SageMaker", "Invocations", VARIANT, at_s, [1.0] * 5, account=LINKED)
    scope = {"account": LINKED, "linked": True, "discover": ["sagemaker"]}
    with polling(at_s=T0, scope=scope) as (poller, account, clock):
        account.samples.update(fake.account.samples)
        add_endpoint(account, VARIANT["EndpointName"])
        points = poller.poll(clock.now_s).points

    told = [p for p in points if p.key.name == "Invocations" and p.statistics]
    assert [p.statistics["Sum"] for p in told] == [5, 5, 5]
    assert {p.key.account for p in told} == {LINKED}


def test_endpoints_and_components_come_from_sagemakers_own_lists(fake, source):
    add_endpoint(fake.account, "LLM-Prod", variants=("blue", "green"))
    add_endpoint(fake.account, "broken", status="Failed")
    add_component(fake.account, "Llama-70B-IC", "LLM-Prod")

    assert source.endpoints(None) == (
        [
            {"EndpointName": "LLM-Prod", "VariantName": "blue"},
            {"EndpointName": "LLM-Prod", "VariantName": "green"},
        ],
        None,
    )
    assert source.components(None) == ([{"InferenceComponentName": "Llama-70B-IC"}], None)


def test_a_fresh_endpoint_is_polled_before_list_metrics_knows_it_and_a_deleted_one_is_not():
    scope = {"discover": ["sagemaker", "sagemaker_component"]}
    with polling(at_s=T0, scope=scope) as (poller, account, clock):
        add_endpoint(account, "fresh")
        add_component(account, "adapter", "fresh")
        gone = {"EndpointName": "gone", "VariantName": "AllTraffic"}
        account.put("AWS/SageMaker", "Invocations", gone, T0 - 600, [1.0])
        poller.poll(clock.now_s)
        asked = {each.service for each in poller.asked}

    assert asked == {"fresh", "adapter"}


def test_lists_that_are_forbidden_leave_the_named_endpoints_and_what_was_known():
    scope = {"discover": ["sagemaker"]}
    with polling(BEDROCK, at_s=T0, scope=scope) as (poller, account, clock):
        add_endpoint(account, "llm-prod")
        first = poller.poll(clock.now_s)
        known = {each.service for each in poller.asked}
        clock.now_s = T0 + 900
        account.fail_next = [AwsError("AccessDenied", "not you", 403)] * 2

        poller.poll(clock.now_s)

    assert first.failures == []
    assert known == {"assistant", "llm-prod"}
    assert {each.service for each in poller.asked} == known


def test_optional_metrics_are_asked_for_where_they_are_published():
    with polling(SAGEMAKER, at_s=T0) as (poller, account, clock):
        account.put("AWS/SageMaker", "FirstChunkLatency", VARIANT, T0 - 120, [4e5])
        poller.poll(clock.now_s)
        names = {each.metric.name for each in poller.asked}

    assert "FirstChunkLatency" in names
    assert "ModelSetupTime" not in names


def test_an_answer_cut_short_by_the_network_may_be_tried_again():
    class Cut(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"Metrics": [')
            self.close_connection = True

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Cut)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    (scope,) = settings_of(SAGEMAKER, url=url).scopes
    cut = AwsSource(scope, session=nobody())
    with pytest.raises(CallError) as failed:
        cut.metrics("AWS/Bedrock", None)
    thread.join()
    server.server_close()
    cut.close()

    assert failed.value.retryable


def test_a_page_names_the_queries_and_the_window_as_told(fake, source):
    settings = settings_of(SAGEMAKER)
    (scope,) = settings.scopes
    asked = asked_of(scope, scope.endpoints[0], settings.thresholds_s)

    source.metric_data(queries(asked[:1]), T0 - 600, T0, None)

    ((_, body, _),) = fake.account.calls
    assert (body["StartTime"], body["EndTime"]) == (T0 - 600, T0)
    assert [each["MetricStat"]["Stat"] for each in body["MetricDataQueries"]] == [
        "SampleCount",
        "Sum",
        "p50",
        "p99",
        "PR(:10000000)",
    ]


@pytest.mark.parametrize("version", ["1.42.6", "1.40.0", "0.99"])
def test_a_botocore_that_is_too_old_is_named_with_the_way_out(version):
    with pytest.raises(ConfigError) as refused:
        check_version(version)

    assert str(refused.value) == (
        f"exporters.cloudwatch: botocore {version} is too old; 1.42.7 is the oldest that works. "
        "Run: pip install --upgrade 'stagewatch[aws]'."
    )


@pytest.mark.parametrize("version", ["1.42.7", "1.44.8", "2.0.0", "1.42.7.dev1"])
def test_the_floor_and_all_above_it_are_taken(version):
    check_version(version)


def test_the_floor_is_that_of_the_extra():
    (told,) = re.findall(r'"boto3>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())

    assert told == ".".join(map(str, OLDEST))


def test_instants_stay_numbers_where_aws_tells_numbers(fake, source):
    fake.account.put("AWS/SageMaker", "Invocations", VARIANT, T0 - 60, [1.0])
    settings = settings_of(SAGEMAKER)
    (scope,) = settings.scopes
    asked = [
        each
        for each in asked_of(scope, scope.endpoints[0], settings.thresholds_s)
        if each.metric.name == "Invocations"
    ]

    told = source.metric_data(queries(asked), T0 - 600, T0, None)

    assert told["MetricDataResults"][0]["Timestamps"] == [T0 - 60]
