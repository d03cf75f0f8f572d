"""Headers that are set by the operator: such as can be sent, and whose values are never printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, SecretStr

__all__ = ["SecretHeaders"]

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UNSENDABLE = re.compile(r"[^\x20-\x7e\t]")
_OURS = (
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "traceparent",
    "x-prometheus-remote-write-version",
)


def _sendable(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"{name!r} is no header that can be set")
        # why here: who sends it would refuse it with the value in its words
        if _UNSENDABLE.search(value.get_secret_value()):
            raise ValueError(f"the header {name} holds a character that no header may hold")
    return headers


SecretHeaders = Annotated[Mapping[str, SecretStr], AfterValidator(_sendable)]
