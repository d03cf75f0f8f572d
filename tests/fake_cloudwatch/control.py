"""SageMaker's own lists: endpoints, variants and inference components, page by page."""

from tests.fake_cloudwatch.account import AwsError

__all__ = [
    "add_component",
    "add_endpoint",
    "describe_configuration",
    "describe_endpoint",
    "list_components",
    "list_endpoints",
]

_ARN = "arn:aws:sagemaker:us-east-1:111122223333"
_PAGE = 10


def add_endpoint(
    account,
    name,
    *,
    variants=("AllTraffic",),
    status="InService",
    at_s=1_780_000_000,
    instance="ml.g5.12xlarge",
):
    account.configurations[f"{name}-config"] = {
        "EndpointConfigName": f"{name}-config",
        "EndpointConfigArn": f"{_ARN}:endpoint-config/{name.lower()}-config",
        "CreationTime": at_s,
        "ProductionVariants": [
            {"VariantName": variant} | ({} if instance is None else {"InstanceType": instance})
            for variant in variants
        ],
    }
    account.endpoints[name] = {
        "EndpointName": name,
        "EndpointArn": f"{_ARN}:endpoint/{name.lower()}",
        "EndpointConfigName": f"{name}-config",
        "EndpointStatus": status,
        "CreationTime": at_s,
        "LastModifiedTime": at_s,
        "ProductionVariants": [{"VariantName": variant} for variant in variants],
    }


def add_component(account, name, endpoint, *, variant="AllTraffic", at_s=1_780_000_000):
    account.components.append(
        {
            "CreationTime": at_s,
            "InferenceComponentArn": f"{_ARN}:inference-component/{name.lower()}",
            "InferenceComponentName": name,
            "EndpointArn": f"{_ARN}:endpoint/{endpoint.lower()}",
            "EndpointName": endpoint,
            "VariantName": variant,
            "InferenceComponentStatus": "InService",
            "LastModifiedTime": at_s,
        }
    )


def list_endpoints(account, body):
    told = ("EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus")
    every = [{name: each[name] for name in told} for each in account.endpoints.values()]
    wanted = body.get("StatusEquals")
    return _page("Endpoints", [e for e in every if wanted in (None, e["EndpointStatus"])], body)


def describe_endpoint(account, body):
    found = account.endpoints.get(body["EndpointName"])
    if found is None:
        raise AwsError("ValidationException", f"Could not find endpoint {body['EndpointName']}")
    return found


def describe_configuration(account, body):
    found = account.configurations.get(body["EndpointConfigName"])
    if found is None:
        name = body["EndpointConfigName"]
        raise AwsError("ValidationException", f"Could not find endpoint configuration {name}")
    return found


def list_components(account, body):
    return _page("InferenceComponents", account.components, body)


def _page(name, every, body):
    offset = int(body.get("NextToken") or 0)
    answer = {name: every[offset : offset + _PAGE]}
    if offset + _PAGE < len(every):
        answer["NextToken"] = str(offset + _PAGE)
    return answer
