"""The session of a browser: a signed cookie that stands for one of the tokens, until it ends."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

__all__ = ["COOKIE", "LASTS_S", "issued", "token_of"]

COOKIE = "stagewatch_session"
LASTS_S = 12 * 3600
"""A night on call. Nothing is kept of it here: whoever takes the token away ends it."""

_LONGEST = 200


def issued(digest: bytes, *, now_s: float) -> str:
    """A cookie for the token with this digest. It holds no secret that can be turned back."""
    until_s = int(now_s) + LASTS_S
    return f"{until_s}.{_signed(digest, until_s)}"


def token_of(cookie: str, digests: Iterable[bytes], *, now_s: float) -> bytes | None:
    """The digest that signed it, or None: forged, over, or of a token that is no more."""
    until, _, signature = cookie[:_LONGEST].partition(".")
    if not (until.isascii() and until.isdecimal() and signature.isascii()):
        return None
    if not now_s < int(until) <= now_s + LASTS_S:
        return None
    # why all: how long it takes must not say how nearly right a cookie is
    found = [d for d in digests if hmac.compare_digest(_signed(d, int(until)), signature)]
    return found[0] if found else None


def _signed(digest: bytes, until_s: int) -> str:
    return hmac.new(digest, f"stagewatch session {until_s}".encode(), hashlib.sha256).hexdigest()
