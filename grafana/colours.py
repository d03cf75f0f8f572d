"""Our colours, those of each pair that can be told from a light and from a dark Grafana alike."""

from __future__ import annotations

from dashboard.theme import LIGHT, LOOKS, STAGE_SHADES, State

__all__ = ["BACKGROUNDS", "STAGES", "STATES", "contrast"]

BACKGROUNDS = ("#FFFFFF", "#181B1F")
"""A panel of Grafana's light theme, and of its dark one."""


def contrast(one: str, other: str) -> float:
    """Of two colours, as the WCAG count it: from 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _clearest(*colours: str) -> str:
    return max(colours, key=lambda each: min(contrast(each, behind) for behind in BACKGROUNDS))


STATES: dict[State, str] = {
    state: _clearest(look.light, look.dark) for state, look in LOOKS.items()
} | {
    # why others: of these pairs neither can be seen on both, so the page's own voices speak
    State.NOT_OBSERVED: "text",
    State.HEALTHY: _clearest(LIGHT.accent, *STAGE_SHADES["prefill"]),
}
"""Grafana knows `text` as the colour of its own words."""

STAGES = {stage: _clearest(*shades) for stage, shades in STAGE_SHADES.items()}
