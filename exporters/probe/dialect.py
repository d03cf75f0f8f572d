"""How an endpoint is spoken to: what a request says, and how chunks are read out of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from exporters.probe.chunk import Chunk, read_chunk
from exporters.probe.failure import ProbeError
from exporters.probe.prompt import Prompt
from exporters.probe.settings import ProbeTarget
from exporters.probe.sse import Events

__all__ = ["LESS_USAGE", "ChunkReader", "Document", "EventChunks", "body_of", "headers_of"]

LESS_USAGE = {"continuous": "final", "final": "none"}
"""What to ask for where a server refuses to count tokens that way."""

_PROMPT = "{prompt}"
_DOCUMENT_BYTES = 4 * 1024 * 1024


class ChunkReader(Protocol):
    """Bytes in, the chunks that they complete out."""

    total_bytes: int

    def feed(self, piece: bytes) -> list[Chunk]: ...

    def rest(self) -> list[Chunk]: ...


class EventChunks:
    """Chunks of a stream of server-sent events or JSON lines."""

    def __init__(self, where: str) -> None:
        self.total_bytes = 0
        self._where, self._events = where, Events(where)

    def feed(self, piece: bytes) -> list[Chunk]:
        self.total_bytes += len(piece)
        return [read_chunk(data, self._where) for data in self._events.feed(piece)]

    def rest(self) -> list[Chunk]:
        return [read_chunk(data, self._where) for data in self._events.rest()]


class Document:
    """An answer that is one JSON document: whoever sends it does not stream."""

    def __init__(self, where: str) -> None:
        self.total_bytes = 0
        self._where, self._text = where, bytearray()

    def feed(self, piece: bytes) -> list[Chunk]:
        self.total_bytes += len(piece)
        self._text += piece
        if len(self._text) > _DOCUMENT_BYTES:
            raise ProbeError("too_large", "a document without end", where=self._where)
        return []

    def rest(self) -> list[Chunk]:
        return [read_chunk(bytes(self._text), self._where)] if self._text else []


def body_of(target: ProbeTarget, prompt: Prompt, usage: str) -> bytes:
    """The request's JSON, with what the settings add, change and take out."""
    asked = _asked_of_bedrock(prompt) if target.kind == "bedrock" else _asked(target, prompt, usage)
    asked |= {name: _filled(value, prompt.text) for name, value in target.body.items()}
    told = {name: value for name, value in asked.items() if value is not None}
    return json.dumps(told, ensure_ascii=False).encode()


def headers_of(target: ProbeTarget, url: str, length: int, traceparent: str) -> dict[str, str]:
    """The request's headers, the settings' own last."""
    headers = {
        "host": urlsplit(url).netloc,
        "user-agent": "stagewatch-probe",
        "accept": "application/vnd.amazon.eventstream" if target.aws else "text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(length),
        "traceparent": traceparent,
    }
    if target.api_key is not None:
        headers["authorization"] = f"Bearer {target.api_key.get_secret_value()}"
    return headers | {
        name.lower(): value.get_secret_value() for name, value in target.headers.items()
    }


def _asked(target: ProbeTarget, prompt: Prompt, usage: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"max_tokens": prompt.max_tokens, "stream": True}
    if target.kind != "sagemaker":
        asked["model"] = target.model
    if target.kind == "openai-completions":
        asked["prompt"] = prompt.text
    else:
        asked["messages"] = [{"role": "user", "content": prompt.text}]
    if usage != "none":
        asked["stream_options"] = {"include_usage": True}
    if usage == "continuous":
        asked["stream_options"]["continuous_usage_stats"] = True
    return asked


def _asked_of_bedrock(prompt: Prompt) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": [{"text": prompt.text}]}],
        "inferenceConfig": {"maxTokens": prompt.max_tokens},
    }


def _filled(value: Any, prompt: str) -> Any:
    """A setting of the body, with the prompt where it says `{prompt}`."""
    if isinstance(value, Mapping):
        return {name: _filled(inner, prompt) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, prompt) for inner in value]
    return prompt if value == _PROMPT else value
