"""Names that nobody should choose leave the sentence around them as it is."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from dashboard.legible import legible
from dashboard.parts import name_text, sentence
from tests.dashboard.reading import text

TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_nothing_in_it_turns_what_follows_and_no_letter_is_lost(name):
    shown = legible(name)

    assert not {unicodedata.bidirectional(each) for each in shown} & TURNS
    assert len(shown) == len(name)
    assert legible(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_people_write_stays_as_it_is(name):
    assert legible(name) == name


def test_two_names_that_differ_in_an_override_alone_stay_two():
    assert len({legible(each) for each in ("chat", "chat\u202e", "chat\u202e\u202e")}) == 3


def test_a_sentence_with_such_a_name_reads_from_left_to_right():
    assert text(sentence("chat\u202etxt pages")) == "chat\ufffdtxt pages"
    assert text(name_text("שלום\u202e")) == "שלום\ufffd"
