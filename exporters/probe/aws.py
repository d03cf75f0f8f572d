"""Bedrock's ConverseStream and SageMaker's streams on the wire: boto3's credentials and signatures.

The bytes are our own, so that they are timed like any other endpoint's; boto3 is asked who we are,
botocore signs the request and takes the answer's frames apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from domain.errors import ConfigError
from exporters.probe.chunk import Chunk, count, mapping, text
from exporters.probe.dialect import EventChunks
from exporters.probe.failure import ProbeError, plain
from exporters.probe.settings import ProbeTarget

__all__ = ["FramedChunks", "signed"]

_SIGNED_FOR = {"bedrock": "bedrock", "sagemaker": "sagemaker"}
_TOTAL_BYTES = 64 * 1024 * 1024


def signed(
    target: ProbeTarget, url: str, headers: Mapping[str, str], body: bytes
) -> dict[str, str]:
    """These headers with a signature of the credentials that boto3 finds; may block."""
    try:
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
    except ImportError as error:
        raise ConfigError(
            "boto3 is not installed",
            where=f"kind {target.kind}",
            remedy="Install the extra: pip install 'stagewatch[aws]'.",
        ) from error
    if "authorization" in headers:  # a Bedrock API key
        return dict(headers)
    try:
        found = _session().get_credentials()
        credentials = found.get_frozen_credentials() if found is not None else None
    except BotoCoreError as error:
        raise _no_credentials(url, plain(str(error))) from error
    if credentials is None:
        raise _no_credentials(url, "boto3 finds none")
    request = AWSRequest(method="POST", url=url, data=body, headers=dict(headers))
    SigV4Auth(credentials, _SIGNED_FOR[target.kind], target.region).add_auth(request)
    return {name.lower(): str(value) for name, value in request.headers.items()}


@lru_cache(maxsize=1)
def _session() -> Any:
    """One for all, so that credentials are refreshed when they must be and not for each probe."""
    import boto3  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped

    return boto3.session.Session()


def _no_credentials(url: str, problem: str) -> ProbeError:
    return ProbeError(
        "no_credentials",
        f"no AWS credentials: {problem}",
        where=url,
        remedy="Give a role, a profile or AWS_ACCESS_KEY_ID to the process.",
    )


class FramedChunks:
    """Chunks of an AWS event stream; what SageMaker's parts hold is itself a stream of events."""

    def __init__(self, where: str) -> None:
        from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped

        self.total_bytes = 0
        self._where, self._frames, self._inner = where, EventStreamBuffer(), EventChunks(where)

    def feed(self, piece: bytes) -> list[Chunk]:
        from botocore.eventstream import ParserError  # noqa: PLC0415 - heavy

        self.total_bytes += len(piece)
        if self.total_bytes > _TOTAL_BYTES:
            raise ProbeError("too_large", f"more than {_TOTAL_BYTES} bytes", where=self._where)
        self._frames.add_data(piece)
        try:
            return [chunk for frame in self._frames for chunk in self._read(frame)]
        except ParserError as error:
            problem = f"this is no AWS event stream: {plain(str(error))}"
            raise ProbeError("garbage", problem, where=self._where) from error

    def rest(self) -> list[Chunk]:
        return self._inner.rest()

    def _read(self, frame: Any) -> list[Chunk]:
        headers = frame.headers
        if headers.get(":message-type") != "event":
            kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
            said = headers.get(":error-message") or frame.payload.decode(errors="replace")
            return [Chunk(error=plain(f"{kind}: {said}"))]
        kind = headers.get(":event-type", "")
        if kind == "PayloadPart":
            return self._inner.feed(frame.payload)
        return [_of_bedrock(kind, self._object(frame.payload))]

    def _object(self, payload: bytes) -> Mapping[str, Any]:
        try:
            return mapping(json.loads(payload))
        except (ValueError, RecursionError) as error:
            raise ProbeError("garbage", "an event is no JSON", where=self._where) from error


def _of_bedrock(kind: str, told: Mapping[str, Any]) -> Chunk:
    """One event of a ConverseStream."""
    if kind == "contentBlockDelta":
        delta = mapping(told.get("delta"))
        thought = mapping(delta.get("reasoningContent"))
        tool = text(mapping(delta.get("toolUse")).get("input"))
        shows = bool(text(delta.get("text")) or tool or thought)
        return Chunk(shows=shows, thinks=bool(thought), deltas=1)
    if kind == "messageStop":
        return Chunk(finish_reason=plain(text(told.get("stopReason")))[:64])
    if kind == "metadata":
        usage = mapping(told.get("usage"))
        return Chunk(
            prompt_tokens=count(usage.get("inputTokens")),
            output_tokens=count(usage.get("outputTokens")),
        )
    return Chunk()
