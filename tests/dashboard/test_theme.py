"""States that can be told apart at 3 a.m., by anybody: by colour, and by word and shape without it.

Distances are CIEDE2000 (CIE 142-2001; a just noticeable one is about 1), contrasts WCAG 2.1's, and
what other eyes see is simulated after Viénot, Brettel and Mollon 1999 (protanopia, deuteranopia)
and Brettel, Viénot and Mollon 1997 (tritanopia); coloraide computes all of them.
"""

from itertools import combinations, pairwise

import pytest
from coloraide import Color

from dashboard.figures import GREY, HUE
from dashboard.parts import badge
from dashboard.theme import DARK, LIGHT, LOOKS, STAGE_SHADES, State, css, css_class
from tests.dashboard.reading import text
from tests.paths import ROOT

EYES = (None, "protan", "deutan", "tritan")
THEMES = ("light", "dark")
PALETTES = {"light": LIGHT, "dark": DARK}


def seen(colour, eye):
    return Color(colour) if eye is None else Color(colour).filter(eye)


def distance(one, other, eye):
    return seen(one, eye).delta_e(seen(other, eye), method="2000")


def contrast(one, other):
    return Color(one).contrast(other, method="wcag21")


def nearest(pairs, eye):
    """The two that are nearest to each other, and how far apart they are."""
    return min((round(distance(*pair, eye), 1), *pair) for pair in pairs)


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


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", THEMES)
def test_any_two_states_differ_for_every_eye(theme, eye):
    colours = [getattr(look, theme) for look in LOOKS.values()]

    assert nearest(combinations(colours, 2), eye) > (20,)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", THEMES)
def test_no_state_is_the_page_it_stands_on_for_any_eye(theme, eye):
    ground = PALETTES[theme].page

    assert nearest([(getattr(look, theme), ground) for look in LOOKS.values()], eye) > (30,)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", [0, 1])
def test_stages_that_lie_side_by_side_differ_for_every_eye(theme, eye):
    colours = [shades[theme] for shades in STAGE_SHADES.values()]
    one_missing = zip(colours, colours[2:], strict=False)

    assert nearest([*pairwise(colours), *one_missing], eye) > (15,)


@pytest.mark.parametrize("eye", EYES)
def test_the_two_kinds_of_line_differ_for_every_eye(eye):
    assert distance(HUE, GREY, eye) > 10


def test_without_any_colour_a_state_is_told_by_its_word_and_its_shape():
    told = {text(badge(state)) for state in State}

    assert len(told) == len(State)
    assert len({look.symbol for look in LOOKS.values()}) == len(State)
    for state in State:
        assert text(badge(state)) == f"{LOOKS[state].symbol} {state}"


def test_no_state_is_told_by_red_against_green():
    """Healthy is blue: the pair that most often fails an eye is not in use."""
    hue = {state: Color(LOOKS[state].light).convert("oklch")["hue"] for state in State}

    assert 220 < hue[State.HEALTHY] < 280
    assert not any(100 < each < 180 for each in hue.values())


def test_a_state_has_a_name_in_the_style_sheet():
    assert css_class(State.NOT_OBSERVED) == "state-not-observed"


def test_the_style_sheet_of_the_colours_golden(golden):
    golden("theme.css", css())


def test_the_style_sheet_that_is_served_is_the_reviewed_one():
    assert (ROOT / "dashboard" / "assets" / "theme.css").read_text() == css()
