"""Settings that can never work are refused with the way out."""

import pytest
from pydantic import ValidationError

from domain.endpoint_catalogue import KINDS
from exporters.cloudwatch import settings as module
from exporters.cloudwatch.settings import CloudWatchSettings
from tests.exporters.cloudwatch.polling import BEDROCK, SAGEMAKER, settings_of


def test_every_kind_of_the_table_can_be_named_and_no_other():
    assert sorted(module.Kind.__args__) == list(KINDS)


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ({**SAGEMAKER, "dimensions": {"EndpointName": "x"}}, "EndpointName and VariantName"),
        ({**BEDROCK, "kind": "oracle"}, "Input should be"),
        ({**BEDROCK, "thresholds_s": {"tfft": 1}}, "no latency of an endpoint"),
        ({**BEDROCK, "thresholds_s": {"ttft": 0}}, "greater than 0"),
        ({**BEDROCK, "speed": 1}, "Extra inputs"),
    ],
)
def test_an_endpoint_that_cannot_be_is_refused(endpoint, problem):
    with pytest.raises(ValidationError, match=problem):
        settings_of(endpoint)


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        ({"account": "1234"}, "pattern"),
        ({"region": "US East"}, "pattern"),
        ({"endpoints": []}, "nothing to read"),
        ({"endpoints": [BEDROCK, BEDROCK]}, "stands here twice"),
        ({"endpoint_url": "ftp://x"}, "no web address"),
    ],
)
def test_a_scope_that_cannot_be_is_refused(scope, problem):
    with pytest.raises(ValidationError, match=problem):
        settings_of(BEDROCK, scope=scope)


def test_one_account_and_region_stands_once():
    scope = {"account": "111122223333", "region": "us-east-1", "endpoints": [BEDROCK]}

    with pytest.raises(ValidationError, match="put its endpoints together"):
        CloudWatchSettings.model_validate({"scopes": [scope, scope]})


def test_a_backfill_that_would_leave_gaps_is_refused():
    with pytest.raises(ValidationError, match="points would be lost"):
        settings_of(BEDROCK, reread_s=1800, backfill_s=2000)
