"""boto3's side of it: one page a call, its errors in our words, its credentials never looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from domain.errors import ConfigError
from exporters.cloudwatch.failure import CallError, ThrottledError
from exporters.cloudwatch.settings import ScopeSettings
from exporters.cloudwatch.source import Listed

__all__ = ["OLDEST", "AwsSource", "check_version", "session_of"]

OLDEST = (1, 42, 7)
"""The first botocore that speaks JSON to CloudWatch; before, it was Query/XML, which we never met."""

_THROTTLING = frozenset(
    (
        "LimitExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    )
)
_CREDENTIALS = frozenset(
    (
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    )
)
_FORBIDDEN = frozenset(("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"))
_CONNECT_S, _READ_S = 5, 30
_SESSION_NAME = "stagewatch"
_LONGEST_SAID = 300


def session_of(scope: ScopeSettings) -> Any:
    """A boto3 session of the chain's credentials, or of the role that they may assume."""
    boto3, botocore_session, credentials = _imported()
    session = boto3.session.Session(region_name=scope.region)
    if scope.role_arn is None:
        return session
    if session.get_credentials() is None:
        raise ConfigError(
            "no credentials that could assume the role",
            where=f"exporters.cloudwatch role_arn {scope.role_arn}",
            remedy="Give the process a role, a profile or a web identity of its own.",
        )
    inner = botocore_session.get_session()
    inner._credentials = credentials.DeferredRefreshableCredentials(  # noqa: SLF001 - as botocore's own providers do
        refresh_using=lambda: _assumed(session, scope), method="assume-role"
    )
    return boto3.session.Session(botocore_session=inner, region_name=scope.region)


def _assumed(session: Any, scope: ScopeSettings) -> dict[str, str]:
    """Fresh credentials of the role, in the words of botocore's refreshing."""
    more = {} if scope.external_id is None else {"ExternalId": scope.external_id}
    with closing(session.client("sts", endpoint_url=scope.endpoint_url)) as sts:
        told = sts.assume_role(RoleArn=scope.role_arn, RoleSessionName=_SESSION_NAME, **more)
    found = told["Credentials"]
    return {
        "access_key": found["AccessKeyId"],
        "secret_key": found["SecretAccessKey"],
        "token": found["SessionToken"],
        "expiry_time": found["Expiration"].isoformat(),
    }


def _imported() -> tuple[Any, Any, Any]:
    try:
        import boto3  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
        import botocore  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
        from botocore import credentials, session  # noqa: PLC0415 - heavy
    except ImportError as error:
        raise ConfigError(
            "boto3 is not installed",
            where="exporters.cloudwatch",
            remedy="Run: pip install 'stagewatch[aws]'.",
        ) from error
    check_version(botocore.__version__)
    return boto3, session, credentials


def check_version(installed: str) -> None:
    """`ConfigError` where botocore is too old."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[:3])
    if numbers < OLDEST:
        raise ConfigError(
            f"botocore {installed} is too old; {'.'.join(map(str, OLDEST))} is the oldest that works",
            where="exporters.cloudwatch",
            remedy="Run: pip install --upgrade 'stagewatch[aws]'.",
        )


@contextmanager
def _understood() -> Iterator[None]:
    """An answer of another shape than AWS's is a failed call, and nothing worse."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        said = f"an answer of another shape: {error!r}"[:_LONGEST_SAID]
        raise CallError("garbage", said) from error


class AwsSource:
    """One account and region."""

    def __init__(self, scope: ScopeSettings, *, session: Any = None) -> None:
        self._scope = scope
        self.session = session or session_of(scope)
        _leave_instants(self.session)
        self._clients: dict[str, Any] = {}
        self._instances: dict[str, dict[str, str]] = {}  # by name of the configuration

    @_understood()
    def metric_data(
        self, queries: Sequence[Mapping[str, Any]], since_s: int, until_s: int, token: str | None
    ) -> Mapping[str, Any]:
        more = {} if token is None else {"NextToken": token}
        told = self._call(
            "cloudwatch",
            lambda client: client.get_metric_data(
                MetricDataQueries=list(queries),
                StartTime=datetime.fromtimestamp(since_s, UTC),
                EndTime=datetime.fromtimestamp(until_s, UTC),
                ScanBy="TimestampAscending",
                **more,
            ),
        )
        _part(told, "MetricDataResults")
        return told

    @_understood()
    def metrics(self, namespace: str, token: str | None) -> tuple[list[Listed], str | None]:
        more: dict[str, Any] = {} if token is None else {"NextToken": token}
        if self._scope.linked:
            more["IncludeLinkedAccounts"] = True
            more["OwningAccount"] = self._scope.account
        told = self._call(
            "cloudwatch", lambda client: client.list_metrics(Namespace=namespace, **more)
        )
        every = _part(told, "Metrics")
        owners = told.get("OwningAccounts") or [self._scope.account] * len(every)
        listed = [
            Listed(
                account=owner,
                namespace=each["Namespace"],
                name=each["MetricName"],
                dimensions=_pairs(each.get("Dimensions", [])),
            )
            for each, owner in zip(every, owners, strict=False)
        ]
        return listed, told.get("NextToken")

    @_understood()
    def endpoints(self, token: str | None) -> tuple[list[dict[str, str]], str | None]:
        more = {} if token is None else {"NextToken": token}
        told = self._call(
            "sagemaker",
            lambda client: client.list_endpoints(StatusEquals="InService", MaxResults=100, **more),
        )
        names = [each["EndpointName"] for each in _part(told, "Endpoints")]
        return [each for name in names for each in self._variants(name)], told.get("NextToken")

    def _variants(self, endpoint: str) -> list[dict[str, str]]:
        told = self._call(
            "sagemaker", lambda client: client.describe_endpoint(EndpointName=endpoint)
        )
        return [
            {"EndpointName": endpoint, "VariantName": each["VariantName"]}
            for each in _part(told, "ProductionVariants")
        ]

    @_understood()
    def components(self, token: str | None) -> tuple[list[dict[str, str]], str | None]:
        more = {} if token is None else {"NextToken": token}
        told = self._call("sagemaker", lambda client: client.list_inference_components(**more))
        return [
            {"InferenceComponentName": each["InferenceComponentName"]}
            for each in _part(told, "InferenceComponents")
        ], told.get("NextToken")

    @_understood()
    def instance_types(self, endpoint: str) -> dict[str, str]:
        told = self._call(
            "sagemaker", lambda client: client.describe_endpoint(EndpointName=endpoint)
        )
        config = _told(told, "EndpointConfigName")
        if config not in self._instances:  # why: it can be replaced, and never changes
            told = self._call(
                "sagemaker",
                lambda client: client.describe_endpoint_config(EndpointConfigName=config),
            )
            variants = _part(told, "ProductionVariants")
            self._instances[config] = {
                each["VariantName"]: each["InstanceType"]
                for each in variants
                if "InstanceType" in each
            }
        return self._instances[config]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _call(self, service: str, send: Callable[[Any], Mapping[str, Any]]) -> Mapping[str, Any]:
        from botocore import exceptions as boto  # noqa: PLC0415 - heavy, untyped
        from botocore.parsers import ResponseParserError  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped

        try:
            return send(self._client(service))
        except boto.ClientError as error:
            raise self._translated(error.response, str(error)) from error
        except (
            boto.HTTPClientError,
            boto.ConnectionError,
            boto.IncompleteReadError,
            boto.ResponseStreamingError,
        ) as error:
            raise CallError("unreachable", str(error), retryable=True) from error
        except ResponseParserError as error:
            said = f"an answer that is none: {error}"[:_LONGEST_SAID]
            raise CallError("garbage", said, retryable=True) from error
        except boto.BotoCoreError as error:  # no credentials, a role that cannot be assumed, …
            way_out = "Give the process a role, a profile or a web identity that may read."
            raise CallError("credentials", f"{error}. {way_out}") from error

    def _translated(self, response: Mapping[str, Any], said: str) -> CallError:
        code = str(response.get("Error", {}).get("Code", ""))
        if code in _THROTTLING:
            return ThrottledError(said)
        if code in _CREDENTIALS:
            self.close()  # why: the next client asks for fresh ones
            return CallError("credentials", said)
        if code in _FORBIDDEN:
            return CallError("forbidden", said)
        if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            return CallError("server_error", said, retryable=True)
        return CallError("refused", said)

    def _client(self, service: str) -> Any:
        from botocore.config import Config  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped

        if service not in self._clients:
            self._clients[service] = self.session.client(
                service,
                endpoint_url=self._scope.endpoint_url,
                config=Config(  # why one attempt: we try again ourselves, and count it
                    retries={"mode": "standard", "total_max_attempts": 1},
                    connect_timeout=_CONNECT_S,
                    read_timeout=_READ_S,
                ),
            )
        return self._clients[service]


def _leave_instants(session: Any) -> None:
    """Epoch seconds stay numbers: a third of the time was spent on making them dates of a zone."""
    from botocore.utils import parse_timestamp  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped

    def instant(value: object) -> Any:
        return value if isinstance(value, int | float) else parse_timestamp(value)

    factory = session._session.get_component("response_parser_factory")  # noqa: SLF001 - boto3 has no other way to it
    factory.set_parser_defaults(timestamp_parser=instant)


def _part(told: Mapping[str, Any], name: str) -> list[Any]:
    return list(_told(told, name))


def _told(told: Mapping[str, Any], name: str) -> Any:
    """What an answer is about. botocore makes an empty answer of JSON that was cut off."""
    if name not in told:
        raise CallError("garbage", f"an answer without {name}", retryable=True)
    return told[name]


def _pairs(dimensions: Sequence[Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((each["Name"], each["Value"]) for each in dimensions))
