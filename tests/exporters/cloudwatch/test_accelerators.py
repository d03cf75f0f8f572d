"""How many GPUs an endpoint has: said by the configuration, or asked for, or not known."""

import pytest

from domain.endpoint_instance import ACCELERATORS
from tests.exporters.cloudwatch.polling import SAGEMAKER, T0, VARIANT, polling
from tests.fake_cloudwatch.account import AwsError
from tests.fake_cloudwatch.control import add_endpoint

ASKED = {name: value for name, value in SAGEMAKER.items() if name != "gpus"}


def gpus(done):
    return [
        (dict(p.key.dimensions), p.start_s % 3600 or p.key.period_s, p.statistics["Last"])
        for p in done.points
        if p.key.name == ACCELERATORS
    ]


def called(account, name):
    return sum(operation == name for operation, *_ in account.calls)


def test_the_instance_type_says_it_and_a_configuration_is_asked_for_once():
    with polling(ASKED, at_s=T0) as (poller, account, clock):
        add_endpoint(account, "llm-prod", instance="ml.p5.48xlarge")
        first = poller.poll(clock.now_s)
        clock.now_s = T0 + 900
        second = poller.poll(clock.now_s)

    assert gpus(first) == gpus(second) == [(VARIANT, 3600, 8.0)]
    assert called(account, "DescribeEndpoint") == 2
    assert called(account, "DescribeEndpointConfig") == 1


def test_what_the_configuration_says_stands_and_nobody_is_asked():
    with polling(SAGEMAKER, at_s=T0) as (poller, account, clock):
        done = poller.poll(clock.now_s)

    assert gpus(done) == [(VARIANT, 3600, 4.0)]
    assert called(account, "DescribeEndpoint") == 0


@pytest.mark.parametrize(
    ("instance", "said"),
    [("ml.g7.48xlarge", "ml.g7.48xlarge of chat"), (None, "")],
    ids=["unknown", "serverless"],
)
def test_a_type_that_is_not_in_the_table_is_noted_once_and_no_instances_are_nothing(instance, said):
    with polling(ASKED, at_s=T0) as (poller, account, clock):
        add_endpoint(account, "llm-prod", instance=instance)
        done = poller.poll(clock.now_s)
        clock.now_s = T0 + 900
        later = poller.poll(clock.now_s)

    assert gpus(done) == []
    assert done.failures == []
    assert [said in note for note in done.notes] == ([True] if said else [])
    assert later.notes == []


def test_who_may_not_ask_reads_on_and_is_told_the_way_out():
    with polling(ASKED, at_s=T0) as (poller, account, clock):
        account.put("AWS/SageMaker", "Invocations", VARIANT, T0 - 120, [1.0])
        poller._source.instance_types = _forbidden
        done = poller.poll(clock.now_s)

    assert done.failures == []
    assert "set `gpus` of the endpoint" in done.notes[0]
    assert [p for p in done.points if p.key.name == "Invocations" and p.statistics]


def _forbidden(_):
    from exporters.cloudwatch.failure import CallError

    raise CallError("forbidden", "not you")


def test_a_linked_account_is_not_looked_for_in_the_lists_of_another():
    scope = {"account": "444455556666", "linked": True, "discover": ["sagemaker"]}
    with polling(at_s=T0, scope=scope) as (poller, account, clock):
        add_endpoint(account, "the-monitoring-accounts-own")
        account.put("AWS/SageMaker", "Invocations", VARIANT, T0 - 60, [1.0], account="444455556666")
        account.put(
            "/aws/sagemaker/Endpoints",
            "GPUUtilization",
            VARIANT,
            T0 - 60,
            [1.0],
            account="444455556666",
        )
        done = poller.poll(clock.now_s)

    assert {each.service for each in poller.asked} == {"llm-prod"}
    assert done.failures == []
    assert called(account, "ListEndpoints") == called(account, "DescribeEndpoint") == 0


def test_an_endpoint_that_is_gone_stops_no_other():
    gone = [
        {**ASKED, "dimensions": {**VARIANT, "EndpointName": f"gone-{n}"}, "service": f"gone-{n}"}
        for n in range(5)
    ]
    with polling(*gone, ASKED, at_s=T0) as (poller, account, clock):
        add_endpoint(account, "llm-prod")
        done = poller.poll(clock.now_s)
        account.fail_next = [AwsError("AccessDenied", "not you", 403)] * 99
        clock.now_s = T0 + 900
        later = poller.poll(clock.now_s)

    assert gpus(done) == [(VARIANT, 3600, 4.0)]
    assert [f"Could not find endpoint gone-{n}" in note for n, note in enumerate(done.notes)] == (
        [True] * 5
    )
    assert gpus(later) == []
