"""CloudWatch's PromQL endpoint: a signed form goes out, points come back; NaN is not a value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

import httpx

from domain.endpoint import EndpointKey, EndpointPoint
from domain.endpoint_soundness import is_measurement
from exporters.cloudwatch.asked import PERIOD_S
from exporters.cloudwatch.call import Caller
from exporters.cloudwatch.failure import CallError, ThrottledError
from exporters.cloudwatch.settings import PrometheusSettings, ScopeSettings
from exporters.cloudwatch.window import ReadWindow, read_window

__all__ = ["NAMESPACE", "PrometheusAnswer", "PrometheusPoller", "PrometheusSource", "points_of"]

NAMESPACE = "PromQL"
MOST_SERIES = 500
"""CloudWatch cuts an answer off there, and says so nowhere."""
_TIMEOUT_S = 25.0
_LARGEST_BYTES = 32 * 1024 * 1024
_PART_BYTES = 64 * 1024
_MOST_LABELS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAnswer:
    """Points of one question, and what is suspect about them."""

    points: tuple[EndpointPoint, ...]
    notes: tuple[str, ...] = ()


class PrometheusSource:
    """Asks one region. Blocks; raises `CallError`."""

    def __init__(self, scope: ScopeSettings, session: Any) -> None:
        self._scope = scope
        self._session = session
        base = scope.endpoint_url or f"https://monitoring.{scope.region}.amazonaws.com"
        self._url = f"{base.rstrip('/')}/api/v1/query_range"
        self._client = httpx.Client(timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def query_range(self, query: str, window: ReadWindow) -> Mapping[str, Any]:
        """The JSON of one answer."""
        form = {
            "query": query,
            "start": str(window.since_s),
            "end": str(window.until_s),
            "step": str(PERIOD_S),
        }
        body = urlencode(form).encode()
        try:
            with self._client.stream(
                "POST", self._url, content=body, headers=self._signed(body)
            ) as answer:
                return _checked(answer.status_code, _content(answer))
        except httpx.HTTPError as error:
            raise CallError("unreachable", f"{self._url}: {error}", retryable=True) from error

    def _signed(self, body: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped

        found = self._session.get_credentials()
        if found is None:
            raise CallError("credentials", "boto3 finds no credentials")
        headers = {"content-type": "application/x-www-form-urlencoded"}
        request = AWSRequest(method="POST", url=self._url, data=body, headers=headers)
        frozen = found.get_frozen_credentials()
        SigV4Auth(frozen, "monitoring", self._scope.region).add_auth(request)
        return {name: str(value) for name, value in request.headers.items()}


def _content(answer: httpx.Response) -> bytes:
    """What it says, unpacked; no more than can be meant, whatever its length was before."""
    content = bytearray()
    for part in answer.iter_bytes(_PART_BYTES):
        content += part
        if len(content) > _LARGEST_BYTES:
            raise CallError("too_large", f"an answer of more than {_LARGEST_BYTES} bytes")
    return bytes(content)


def _checked(status: int, content: bytes) -> Mapping[str, Any]:
    said = content[:300].decode(errors="replace")
    if status in (422, 429):
        raise ThrottledError(f"HTTP {status}: {said}")
    if status != 200:
        raise CallError("refused", f"HTTP {status}: {said}", retryable=status >= 500)
    try:
        told = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CallError("garbage", f"the answer is no JSON: {said}") from error
    if not isinstance(told, Mapping) or told.get("status") != "success":
        raise CallError("refused", f"the query failed: {said}")
    return told


def points_of(
    told: Mapping[str, Any],
    asked: PrometheusSettings,
    scope: ScopeSettings,
    *,
    now_s: float,
    lag_s: float,
) -> PrometheusAnswer:
    """The samples of a matrix, each as the last value of the minute before it."""
    data = told.get("data")
    every = data.get("result") if isinstance(data, Mapping) else None
    every = every if isinstance(every, list) else []
    points: list[EndpointPoint] = []
    bad = 0
    for series in every:
        try:
            points.extend(_series(series, asked, scope, now_s, lag_s))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            bad += 1
    notes = []
    if bad:
        notes.append(f"{asked.name}: {bad} series of the answer cannot be read")
    if len(every) >= MOST_SERIES:
        notes.append(
            f"{asked.name}: {len(every)} series, where CloudWatch cuts off; split it by a label"
        )
    return PrometheusAnswer(points=tuple(points), notes=tuple(notes))


def _series(
    series: Mapping[str, Any],
    asked: PrometheusSettings,
    scope: ScopeSettings,
    now_s: float,
    lag_s: float,
) -> list[EndpointPoint]:
    labels = sorted((str(k)[:256], str(v)[:256]) for k, v in series.get("metric", {}).items())
    key = EndpointKey(
        account=scope.account,
        region=scope.region,
        namespace=NAMESPACE,
        name=asked.name,
        dimensions=tuple(labels[:_MOST_LABELS]),
        period_s=PERIOD_S,
    )
    found = []
    for at, text in series["values"]:
        value = float(text)
        start = int(at) // PERIOD_S * PERIOD_S - PERIOD_S
        if is_measurement(value) and 0 <= start <= now_s:
            settled = start + PERIOD_S + lag_s <= now_s
            found.append(
                EndpointPoint(
                    key=key,
                    service=asked.service,
                    start_s=start,
                    fetched_at_s=now_s,
                    settled_at_s=now_s if settled else None,
                    source="promql",
                    statistics={"Last": value},
                )
            )
    return found


class PrometheusPoller:
    """The questions of one scope, asked each minute; what did not change is not told again."""

    def __init__(
        self,
        scope: ScopeSettings,
        source: PrometheusSource,
        caller: Caller,
        *,
        reread_s: float,
        lag_s: float,
    ) -> None:
        self._scope, self._source, self._caller = scope, source, caller
        self._reread_s, self._lag_s = reread_s, lag_s
        self._known: dict[tuple[EndpointKey, int], tuple[float, bool]] = {}

    def poll(self, now_s: float) -> tuple[list[EndpointPoint], list[str], list[str]]:
        """New points, notes, and failures."""
        window = read_window(
            now_s, int(now_s), period_s=PERIOD_S, reread_s=self._reread_s, backfill_s=86_400
        )
        points: list[EndpointPoint] = []
        notes: list[str] = []
        failures: list[str] = []
        for asked in self._scope.promql:
            try:
                told = self._caller.call("PromQL", partial(self._ask, asked, window))
            except CallError as failure:
                failures.append(f"{asked.name}: {failure.problem}")
                continue
            found = points_of(told, asked, self._scope, now_s=now_s, lag_s=self._lag_s)
            points += [point for point in found.points if self._is_news(point)]
            notes += found.notes
        self._forget(window.since_s)
        return points, notes, failures

    def close(self) -> None:
        self._source.close()

    def _ask(self, asked: PrometheusSettings, window: ReadWindow) -> Mapping[str, Any]:
        return self._source.query_range(asked.query, window)

    def _is_news(self, point: EndpointPoint) -> bool:
        now = (point.statistics["Last"], point.settled_at_s is not None)
        before = self._known.get((point.key, point.start_s))
        self._known[point.key, point.start_s] = now
        return now != before

    def _forget(self, before_s: int) -> None:
        self._known = {at: told for at, told in self._known.items() if at[1] >= before_s - PERIOD_S}
