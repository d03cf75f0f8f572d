"""What an HTTP `Retry-After` asks for: seconds, or the instant of a date (RFC 9110, 10.2.3)."""

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["asked_s"]


def asked_s(header: str | None, *, now_s: float, most_s: float) -> float | None:
    """Seconds to wait, from 0 to `most_s`; None where there is no header or it says neither."""
    if header is None:
        return None
    try:
        wait_s = float(header)
    except ValueError:
        try:
            at = parsedate_to_datetime(header)
            wait_s = at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now_s
        except (ValueError, TypeError, OverflowError):  # a year or a zone beyond any calendar
            return None
    return min(max(wait_s, 0.0), most_s) if math.isfinite(wait_s) else None
