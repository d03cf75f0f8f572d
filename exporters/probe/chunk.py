"""One chunk of a token stream, whatever server made it: what it shows, counts and says of the end.

OpenAI's chat and text chunks, and the JSON of TGI and LMI (SageMaker) are understood.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from exporters.probe.failure import ProbeError, plain

__all__ = ["Chunk", "count", "mapping", "read_chunk", "text"]

_SHOWN = ("content", "reasoning_content", "reasoning", "refusal", "text")
_DONE = b"[DONE]"
_MOST_TOKENS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """`shows`: it carries text, thought or a piece of a tool call, not only a role.

    `whole`: it is a complete answer of a server that does not stream.
    """

    shows: bool = False
    whole: bool = False
    deltas: int = 0  # choices with a delta, also an empty one
    finish_reason: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None  # of the output, those that reasoning took
    thinks: bool = False  # what it shows is a thought
    done: bool = False  # nothing follows
    error: str = ""


def read_chunk(data: bytes, where: str) -> Chunk:
    """A chunk from its JSON, or the mark of the end; ProbeError where it is neither."""
    if data.strip() == _DONE:
        return Chunk(done=True)
    if not data.strip():
        return Chunk()
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProbeError(
            "garbage",
            f"an event is no JSON: {plain(data[:200].decode(errors='replace'))!r}",
            where=where,
            remedy="Is this a token stream?",
        ) from error
    if not isinstance(told, dict):
        raise ProbeError("garbage", "an event is no JSON object", where=where)
    if said := _error(told):
        return Chunk(error=said)
    choices = [each for each in _list(told.get("choices")) if isinstance(each, dict)]
    return _with_usage(_of_choices(choices) if choices else _of_tokens(told), told)


def _of_choices(choices: list[dict[str, Any]]) -> Chunk:
    parts = [mapping(each.get("delta")) for each in choices]
    parts += [{"text": each.get("text")} for each in choices]
    whole = [mapping(each.get("message")) for each in choices if "message" in each]
    finish = (text(each.get("finish_reason")) for each in choices)
    return Chunk(
        shows=any(map(_shows, (*parts, *whole))),
        thinks=any(part.get("reasoning_content") or part.get("reasoning") for part in parts),
        whole=bool(whole),
        deltas=sum("delta" in each or "text" in each for each in choices),
        finish_reason=next((plain(reason)[:64] for reason in finish if reason), ""),
    )


def _of_tokens(told: Mapping[str, Any]) -> Chunk:
    """TGI's and LMI's own: `token`, and `details` or `generated_text` at the end."""
    token, details = mapping(told.get("token")), mapping(told.get("details"))
    shown = text(token.get("text")) or "".join(map(text, _list(told.get("outputs"))))
    ended = text(details.get("finish_reason")) or (
        "stop" if text(told.get("generated_text")) else ""
    )
    return Chunk(
        shows=bool(shown),
        deltas=int("token" in told or "outputs" in told),
        finish_reason=plain(ended)[:64],
        output_tokens=count(details.get("generated_tokens")),
        prompt_tokens=count(details.get("prompt_tokens")),
    )


def _with_usage(chunk: Chunk, told: Mapping[str, Any]) -> Chunk:
    usage = mapping(told.get("usage"))
    if not usage:
        return chunk
    details = mapping(usage.get("completion_tokens_details"))
    return replace(
        chunk,
        prompt_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        thought_tokens=count(details.get("reasoning_tokens")),
    )


def _shows(part: Mapping[str, Any]) -> bool:
    if any(text(part.get(name)) for name in _SHOWN):
        return True
    return bool(_list(part.get("tool_calls"))) or bool(mapping(part.get("function_call")))


def _error(told: Mapping[str, Any]) -> str:
    """What the server says went wrong, if anything."""
    error = told.get("error")
    if not error and told.get("object") == "error":
        error = told
    if not error:
        return ""
    if isinstance(error, dict):
        said = [error.get("message"), error.get("type"), error.get("code")]
        return plain(", ".join(str(each) for each in said if each)) or "no message"
    return plain(str(error))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """A number of tokens; None for what can be none."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if good and isinstance(value, int) else None
