"""Text that others chose, made legible: nothing in it turns around what stands after it."""

import unicodedata

__all__ = ["legible"]

_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHOWN = "\ufffd"


def legible(text: str) -> str:
    """The same, a mark in place of each sign that overrides a direction or is no character.

    why a mark and not nothing: two names that differ in it alone stay two names.
    """
    if text.isprintable() and text.isascii():
        return text
    return "".join(_SHOWN if _hides(each) else each for each in text)


def _hides(sign: str) -> bool:
    return sign in _TURNING or (unicodedata.category(sign) == "Cc" and sign not in "\n\t")
