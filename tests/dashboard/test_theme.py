"""States that can be told apart at 3 a.m., by anybody."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from dashboard.figures import GREY, HUE
from dashboard.theme import DARK, LIGHT, LOOKS, STAGE_SHADES, State, css, css_class
from tests.paths import ROOT

# Machado, Oliveira and Fernandes 2009, severity 1
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
TO_LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    weights = np.array([0.2126, 0.7152, 0.0722])
    darker, lighter = sorted(float(weights @ linear(each)) for each in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def distance(one, other, deficiency):
    """In Oklab, where just noticeable is about 0.02."""
    seen = (np.clip(DEFICIENCIES[deficiency] @ linear(each), 0, 1) for each in (one, other))
    first, second = (TO_LAB @ np.cbrt(TO_LMS @ each) for each in seen)
    return float(np.linalg.norm(first - second))


@pytest.mark.parametrize("state", State)
def test_a_shape_stands_out_from_the_page_in_both_themes(state):
    assert contrast(LOOKS[state].light, LIGHT.page) >= 3
    assert contrast(LOOKS[state].dark, DARK.page) >= 3


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_words_are_readable_in_both_themes(palette):
    assert contrast(palette.text, palette.page) >= 7
    assert contrast(palette.quiet, palette.page) >= 4.5
    assert contrast(palette.quiet, palette.raised) >= 4.5
    assert contrast(palette.accent, palette.page) >= 4.5
    assert contrast(palette.edge, palette.page) >= 3


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("colour", [HUE, GREY])
def test_a_line_stands_out_in_both_themes(palette, colour):
    assert contrast(colour, palette.page) >= 3


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_any_two_states_differ_for_every_eye(theme, deficiency):
    colours = [getattr(look, theme) for look in LOOKS.values()]

    assert min(distance(*pair, deficiency) for pair in combinations(colours, 2)) > 0.12


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", [0, 1])
def test_stages_that_lie_side_by_side_differ_for_every_eye(theme, deficiency):
    colours = [shades[theme] for shades in STAGE_SHADES.values()]
    side_by_side = [
        *pairwise(colours),
        *zip(colours, colours[2:], strict=False),
    ]  # one may be missing

    assert min(distance(*pair, deficiency) for pair in side_by_side) > 0.08


def test_no_two_states_share_a_symbol():
    assert len({look.symbol for look in LOOKS.values()}) == len(State)


def test_a_state_has_a_name_in_the_style_sheet():
    assert css_class(State.NOT_OBSERVED) == "state-not-observed"


def test_the_style_sheet_of_the_colours_golden(golden):
    golden("theme.css", css())


def test_the_style_sheet_that_is_served_is_the_reviewed_one():
    assert (ROOT / "dashboard" / "assets" / "theme.css").read_text() == css()
