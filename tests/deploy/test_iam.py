"""The policies allow what the code asks of AWS, and nothing else."""

import ast
import json
import re
from functools import cache

import botocore.session
import pytest
from botocore import xform_name

from exporters.probe import settings as probe
from tests.paths import ROOT

PACKAGES = ("stagewatch", "dashboard", "alerts", "review", "collector", "exporters", "domain")
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}
TREES = {name: ast.parse(text) for name, text in TEXTS.items() if "boto" in text}
POLICIES = sorted((ROOT / "deploy" / "iam").glob("*.json"))
ALLOWED_BY_ANOTHER_NAME = {"bedrock:ConverseStream": "bedrock:InvokeModelWithResponseStream"}
SIGNED_BY_HAND = {
    "exporters/cloudwatch/promql.py": {"cloudwatch:GetMetricData", "cloudwatch:ListMetrics"},
    "exporters/probe/aws.py": {
        "bedrock:InvokeModelWithResponseStream",
        "sagemaker:InvokeEndpointWithResponseStream",
    },
}


@cache
def session():
    return botocore.session.get_session()


@cache
def operations(service):
    """What boto3 calls them, and what AWS does."""
    names = session().get_service_model(service).operation_names
    return {xform_name(name): name for name in names}


def imported_by(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@cache
def speaking_to_aws():
    """Every module that imports boto3 or botocore, wherever in it."""
    return {
        name: tree
        for name, tree in TREES.items()
        if {"boto3", "botocore"} & {each.split(".")[0] for each in imported_by(tree)}
    }


def services_in(tree):
    known = set(session().get_available_services())
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return texts & known


def calls_in(tree, services):
    """Attributes, called or handed on, of the name of an operation of one of these services."""
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {
        f"{service}:{operations(service)[name]}"
        for service in services
        for name in names & operations(service).keys()
    }


def asked_for():
    by_boto3 = {
        name: calls_in(tree, services_in(tree))
        for name, tree in speaking_to_aws().items()
        if name not in SIGNED_BY_HAND
    }
    return set().union(*by_boto3.values(), *SIGNED_BY_HAND.values())


def allowed(policy):
    statements = json.loads(policy.read_text())["Statement"]
    return {action for each in statements for action in each["Action"]}


def test_the_policies_together_allow_the_calls_of_the_code_and_no_others():
    assert set().union(*map(allowed, POLICIES)) == asked_for()


def test_the_search_for_calls_finds_those_that_are_there():
    """A law that finds nothing holds always: these are the calls as somebody reads them."""
    assert calls_in(
        TREES["exporters/cloudwatch/aws.py"], services_in(TREES["exporters/cloudwatch/aws.py"])
    ) == {
        "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics",
        "sagemaker:DescribeEndpoint",
        "sagemaker:DescribeEndpointConfig",
        "sagemaker:ListEndpoints",
        "sagemaker:ListInferenceComponents",
        "sts:AssumeRole",
    }
    assert calls_in(TREES["alerts/receivers/sns.py"], {"sns"}) == {"sns:Publish"}


def test_no_module_calls_a_client_that_somebody_else_has_opened():
    """Words such as `publish` may be ours; those of two words and more are not."""
    calls = {
        name
        for service in ("cloudwatch", "sagemaker", "sns", "sts")
        for name in operations(service)
        if "_" in name
    }
    elsewhere = {
        (name, word)
        for name, text in TEXTS.items()
        if name not in speaking_to_aws()
        for word in calls & set(re.findall(r"\.([a-z_]+)\b", text))
    }

    assert elsewhere == set()


def test_every_module_that_signs_by_itself_is_known():
    assert {name for name, text in TEXTS.items() if "SigV4" in text} == SIGNED_BY_HAND.keys()


@pytest.mark.parametrize("kind", ["bedrock", "sagemaker"])
def test_what_a_probe_signs_is_the_operation_that_lies_at_its_path(kind):
    model = session().get_service_model(f"{kind}-runtime")
    path = probe._AWS_PATHS[kind].replace("{model}", "{}")

    (operation,) = [
        name
        for name in model.operation_names
        if re.sub(r"\{[^}]*\}", "{}", model.operation_model(name).http["requestUri"]) == path
    ]

    action = f"{kind}:{operation}"
    assert ALLOWED_BY_ANOTHER_NAME.get(action, action) in SIGNED_BY_HAND["exporters/probe/aws.py"]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.stem)
def test_a_policy_is_one_that_iam_takes(policy):
    told = json.loads(policy.read_text())

    assert told["Version"] == "2012-10-17"
    for each in told["Statement"]:
        assert each["Effect"] == "Allow"
        assert re.fullmatch(r"[A-Za-z0-9]+", each["Sid"])
        assert each.keys() == {"Sid", "Effect", "Action", "Resource"}
        places = [each["Resource"]] if isinstance(each["Resource"], str) else each["Resource"]
        assert all(place == "*" or place.startswith("arn:aws:") for place in places)


@pytest.mark.parametrize("action", sorted(set().union(*map(allowed, POLICIES))))
def test_an_action_is_an_operation_that_aws_has(action):
    service, _, name = action.partition(":")
    homes = [
        home
        for home in (service, f"{service}-runtime")
        if home in session().get_available_services()
    ]

    assert any(name in operations(home).values() for home in homes)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.stem)
def test_everything_is_allowed_only_where_aws_knows_no_narrower_place(policy):
    """ListMetrics, GetMetricData and SageMaker's lists have no resource to name."""
    for each in json.loads(policy.read_text())["Statement"]:
        wide = {
            "cloudwatch:GetMetricData",
            "cloudwatch:ListMetrics",
            "sagemaker:ListEndpoints",
            "sagemaker:ListInferenceComponents",
        }
        assert (each["Resource"] == "*") is (set(each["Action"]) <= wide)


def test_the_list_of_policies_names_each():
    text = (ROOT / "deploy" / "iam" / "README.md").read_text()

    assert [each.name for each in POLICIES if f"`{each.name}`" not in text] == []
