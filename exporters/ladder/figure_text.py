"""Numbers as people read them: three digits, a unit, and a word where there is no number."""

import math

__all__ = ["dollars", "duration", "number", "share"]


def number(value: float | None, *, digits: int = 3) -> str:
    """Three significant digits without an exponent; a dash for what is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{places}f}".replace(",", "\u202f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(value_s: float | None) -> str:
    """Milliseconds below a second, seconds above."""
    if value_s is None or not math.isfinite(value_s):
        return "–"
    if abs(value_s) < 0.9995:
        return f"{number(value_s * 1000)} ms"
    return f"{number(value_s)} s"


def dollars(value: float | None) -> str:
    return "–" if value is None else f"${number(value)}"


def share(part: float, whole: float) -> str:
    """A percentage that never says 100 % of what is not all."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if part < whole and percent > 99.95:
        return "99.9 %"
    return f"{number(percent)} %"
