"""What a Prometheus remembers, asked for as the samples it scraped: at their own instants.

A range of a selector gives samples as they are: no step, no looking back, and so nothing where
nothing was scraped. (`query_range` would repeat a value for five minutes after a target died.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import orjson
import yaml

from collector.native_histogram import CUSTOM_BUCKETS, NativeHistogram
from domain.errors import ConfigError, InputError
from domain.labels import Labels
from stagewatch.prometheus.flow import Value

__all__ = ["Access", "PrometheusApi", "Remembered", "TooMuch"]

_ANSWER_BYTES: Final = 256 * 1024 * 1024
_TOO_MUCH: Final = (httpx.codes.UNPROCESSABLE_ENTITY, httpx.codes.SERVICE_UNAVAILABLE)
_TOO_MUCH_WORDS: Final = ("too many samples", "timeout", "timed out", "limit", "canceled")
_TIMEOUT_S: Final = 120.0


class TooMuch(Exception):  # noqa: N818 - no error: a smaller question is asked
    """The answer would be larger, or take longer, than one of the two sides allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who asks: a bearer token, or a name and a password, or nobody in particular."""

    token: str | None = None
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """One series in a window: its labels and its samples, oldest first."""

    labels: Labels
    samples: Sequence[tuple[int, Value]]


class PrometheusApi:
    """The few questions we ask. Anything that speaks Prometheus's HTTP API may answer them."""

    def __init__(self, url: str, access: Access, *, timeout_s: float = _TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigError(
                "is no address of a Prometheus",
                where="--prometheus",
                remedy="Write http://HOST:9090, and the password into the environment.",
            )
        self.url = url.rstrip("/").removesuffix("/api/v1")
        headers = {"authorization": f"Bearer {access.token}"} if access.token else {}
        auth = (access.user, access.password or "") if access.user else None
        self._client = httpx.Client(
            headers=headers, auth=auth, timeout=timeout_s, follow_redirects=False
        )

    def close(self) -> None:
        self._client.close()

    def label_values(
        self, label: str, selector: str | None, *, since_s: float, until_s: float
    ) -> list[str]:
        """The values of a label in a window."""
        asked = {"start": f"{since_s:.3f}", "end": f"{until_s:.3f}"}
        if selector is not None:
            asked["match[]"] = selector
        values = self._ask("GET", f"/api/v1/label/{label}/values", asked)
        return [str(value) for value in values]

    def external_labels(self) -> dict[str, str] | None:
        """What it adds to whatever it writes to others, and does not say when it is asked.

        None where it shows no configuration, as what gathers from several Prometheuses.
        """
        try:
            status, body = self._answer("GET", "/api/v1/status/config", {})
            told = orjson.loads(body) if status == httpx.codes.OK else {}
            config = yaml.safe_load(told["data"]["yaml"]) or {}
            labels = config.get("global", {}).get("external_labels", {})
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
            return None
        return {str(name): str(value) for name, value in labels.items()}

    def samples(self, selector: str, *, after_ms: int, until_ms: int) -> list[Remembered]:
        """Every sample in (after, until] of the series that are selected."""
        query = f"{selector}[{until_ms - after_ms}ms]"
        asked = {"query": query, "time": f"{until_ms / 1000:.3f}"}
        answer = self._ask("POST", "/api/v1/query", asked)
        if answer.get("resultType") != "matrix":
            raise self._error("it answers something else than a matrix", "Is it a Prometheus?")
        return [
            Remembered(
                labels=tuple(sorted(each["metric"].items())),
                samples=[(at, value) for at, value in _samples(each) if after_ms < at <= until_ms],
            )
            for each in answer["result"]
        ]

    def _ask(self, method: str, path: str, asked: Mapping[str, str]) -> Any:
        try:
            status, body = self._answer(method, path, asked)
        except httpx.TimeoutException as error:
            raise TooMuch("it took too long to answer") from error
        except httpx.HTTPError as error:
            raise self._error(
                f"it cannot be reached ({error})", "Check the address after --prometheus."
            ) from error
        try:
            told = orjson.loads(body)
        except orjson.JSONDecodeError:
            told = None
        if not isinstance(told, dict):
            raise self._error(f"it answers {status}, and no JSON", _remedy(status))
        if told.get("status") != "success":
            raise self._refused(status, told)
        if warnings := told.get("warnings"):
            raise self._error(
                f"its answer may lack data: {'; '.join(map(str, warnings))[:300]}",
                "Ask again when all of its parts are there.",
            )
        return told["data"]

    def _answer(self, method: str, path: str, asked: Mapping[str, str]) -> tuple[int, bytes]:
        in_body = method == "POST"
        with self._client.stream(
            method,
            self.url + path,
            data=asked if in_body else None,
            params=None if in_body else asked,
        ) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > _ANSWER_BYTES:
                    raise TooMuch("its answer is larger than 256 MiB")
            return response.status_code, bytes(body)

    def _refused(self, status: int, told: Mapping[str, Any]) -> Exception:
        why = str(told.get("error", "no reason given"))[:300]
        if status in _TOO_MUCH and any(word in why.lower() for word in _TOO_MUCH_WORDS):
            return TooMuch(why)
        return self._error(f"it refuses the question ({status}): {why}", _remedy(status))

    def _error(self, problem: str, remedy: str) -> InputError:
        return InputError(problem, where=self.url, remedy=remedy)


def _remedy(status: int) -> str:
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return "Set PROMETHEUS_TOKEN, or PROMETHEUS_USER and PROMETHEUS_PASSWORD."
    if status == httpx.codes.BAD_REQUEST:
        return "Check --match; a server that takes no regular expression on names is no use here."
    return "Is this the address of a Prometheus? Its log may say more."


def _samples(series: Mapping[str, Any]) -> Iterator[tuple[int, Value]]:
    for at_s, value in series.get("values", ()):
        yield round(at_s * 1000), float(value)
    for at_s, histogram in series.get("histograms", ()):
        yield round(at_s * 1000), _histogram(histogram)


def _histogram(told: Mapping[str, Any]) -> NativeHistogram:
    """As JSON tells it: populated buckets by their edges, which tell the schema."""
    buckets = [(float(low), float(high), float(n)) for _, low, high, n in told.get("buckets", ())]
    zero = [each for each in buckets if each[0] <= 0 <= each[1]]
    positive = [each for each in buckets if each[0] > 0]
    schemas = {_schema(low, high) for low, high, _ in positive} or {0}
    count, total = float(told["count"]), float(told["sum"])
    schema = schemas.pop()
    if schema is None or schemas:
        return _custom(buckets, count, total)
    scale = 2.0**schema
    return NativeHistogram(
        schema=schema,
        count=count,
        sum=total,
        zero_threshold=zero[0][1] if zero else 0.0,
        zero_count=sum(n for _, _, n in zero),
        buckets=tuple((round(math.log2(high) * scale), n) for _, high, n in positive),
        negative_count=sum(n for _, high, n in buckets if high < 0),
    )


def _schema(low: float, high: float) -> int | None:
    """The schema with a bucket of these edges; None where none has."""
    if math.isinf(high):
        return None
    schema = round(-math.log2(math.log2(high / low)))
    if not -4 <= schema <= 8:
        return None
    index = round(math.log2(high) * 2.0**schema)
    edges = 2.0 ** ((index - 1) / 2.0**schema), 2.0 ** (index / 2.0**schema)
    same = all(map(math.isclose, (low, high), edges))
    return schema if same else None


def _custom(
    buckets: Sequence[tuple[float, float, float]], count: float, total: float
) -> NativeHistogram:
    edges = sorted(
        {edge for low, high, _ in buckets for edge in (low, high) if math.isfinite(edge)}
    )
    place = {edge: index for index, edge in enumerate(edges)}
    counts = sorted((place.get(high, len(edges)), n) for _, high, n in buckets)
    return NativeHistogram(
        schema=CUSTOM_BUCKETS,
        count=count,
        sum=total,
        zero_threshold=0.0,
        zero_count=0.0,
        buckets=tuple(counts),
        negative_count=0.0,
        edges=tuple(edges),
    )
