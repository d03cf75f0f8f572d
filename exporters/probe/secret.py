"""What was sent in confidence, taken out of whatever the other side says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from exporters.probe.settings import ProbeTarget

__all__ = ["secrets_of", "without"]

_SHOWN = "***"
_SHORTEST = 4  # what is shorter is a flag, and a piece of many an honest word
_SIGNED = ("authorization", "x-amz-security-token")


def secrets_of(target: ProbeTarget, url: str, sent: Mapping[str, str]) -> tuple[str, ...]:
    """The query of the address, keys, and the values of headers that are nobody's business."""
    told = [urlsplit(url).query]
    told += [header.get_secret_value() for header in target.headers.values()]
    told += [sent[name] for name in _SIGNED if name in sent]
    if target.api_key is not None:
        told.append(target.api_key.get_secret_value())
    words = {part for each in told for part in (each, each.rpartition(" ")[2])}
    return tuple(sorted((word for word in words if len(word) >= _SHORTEST), key=len, reverse=True))


def without(secrets: Iterable[str], told: str) -> str:
    """The text with stars for secrets."""
    for secret in secrets:
        told = told.replace(secret, _SHOWN)
    return told
