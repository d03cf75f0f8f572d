"""What an HTTP `Retry-After` asks for: seconds, or the instant of a date (RFC 9110, 10.2.3)."""

from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["asked_s"]

_DIGITS = 15  # more than anybody waits


def asked_s(header: str | None, *, now_s: float, most_s: float) -> float | None:
    """Seconds to wait, from 0 to `most_s`; None where there is no header or it says neither."""
    told = (header or "").strip()
    if told.isascii() and told.isdecimal():
        return min(float(told[:_DIGITS]), most_s)
    try:
        at = parsedate_to_datetime(told)
        wait_s = at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now_s
    except (ValueError, TypeError, OverflowError):  # a year or a zone beyond any calendar
        return None
    return min(max(wait_s, 0.0), most_s)
