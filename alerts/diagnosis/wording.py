"""Numbers in evidence, as short as they can be read at night."""

from __future__ import annotations

__all__ = ["ms", "plain", "share", "times"]


def ms(value_s: float) -> str:
    """`250 ms`, `1.5 s`."""
    return f"{value_s * 1000:.3g} ms" if abs(value_s) < 1 else f"{value_s:.3g} s"


def share(ratio: float) -> str:
    """`15 %`."""
    return f"{ratio * 100:.3g} %"


def times(factor: float) -> str:
    """`4.2×`."""
    return f"{factor:.0f}×" if factor >= 10 else f"{factor:.2g}×"


def plain(words: str) -> str:
    """Names are anybody's: what could move a terminal's cursor, or turn a line, is shown as a mark."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in words)
