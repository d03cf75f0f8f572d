"""Reviews that are kept: whole or not at all, found again, and decided about by name."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from domain.errors import InputError, StoreError
from review.shelf import Decision, Shelf
from tests.review.test_report import recorded

WEEK_S = 7 * 86_400


def said(*, done=True, why="it was quiet", author="ada", at_s=1_790_800_000.0):
    return Decision(done=done, why=why, author=author, at_s=at_s)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "reviews")


def test_an_empty_shelf_is_no_error(shelf):
    assert shelf.all() == []
    assert shelf.one("20260928-0123456789") is None
    assert shelf.advice("chat", before_s=1e12) is None


def test_a_review_is_found_again_as_it_was(shelf):
    kept = shelf.keep(recorded("move"))

    assert shelf.one(kept.id).review == recorded("move")
    assert shelf.all() == [kept]
    assert shelf.all(service="code") == []


def test_the_same_review_twice_is_kept_once_with_its_decision(shelf):
    kept = shelf.keep(recorded("move"))
    shelf.decide(kept.id, said())

    assert shelf.keep(recorded("move")).decision == said()
    assert len(shelf.all()) == 1


def test_the_last_word_counts(shelf):
    kept = shelf.keep(recorded("move"))
    shelf.decide(kept.id, said())
    shelf.decide(kept.id, said(done=False, why="the canary failed"))

    assert shelf.one(kept.id).decision == said(done=False, why="the canary failed")


def test_the_newest_come_first(shelf):
    for weeks in (1, 3, 2):
        told = recorded("keep")
        shelf.keep(replace(told, until_s=told.until_s + weeks * WEEK_S))

    ends = [each.review.until_s for each in shelf.all()]
    assert ends == sorted(ends, reverse=True)


def test_last_weeks_advice_is_of_the_same_service_and_an_earlier_week(shelf):
    told = recorded("move")
    shelf.keep(told)
    shelf.keep(replace(recorded("gate"), until_s=told.until_s + 60))

    assert shelf.advice("chat", before_s=told.until_s + WEEK_S) == told.advice
    assert shelf.advice("chat", before_s=told.until_s) is None
    assert shelf.advice("code", before_s=told.until_s + WEEK_S) is None


@pytest.mark.parametrize("name", ["../secret", "", "20260928-0123456789/..", "a\0b", "x" * 5000])
def test_a_name_cannot_leave_the_folder(shelf, name):
    shelf.keep(recorded("move"))

    assert shelf.one(name) is None
    assert shelf.decide(name, said()) is None


@pytest.mark.parametrize("wrong", [{"why": " "}, {"author": ""}, {"why": "x" * 1001}])
def test_a_decision_says_who_and_why_in_a_sentence(wrong):
    with pytest.raises(InputError, match="decision: "):
        said(**wrong)


@pytest.mark.parametrize(
    ("torn", "says"), [(b"{", "no JSON"), (b"\xff", "cannot be read"), (b"[]", "format is None")]
)
def test_a_damaged_file_is_named_and_hides_no_other(shelf, tmp_path, torn, says):
    kept = shelf.keep(recorded("move"))
    damaged = shelf.keep(replace(recorded("keep"), until_s=recorded("keep").until_s + WEEK_S))
    path = tmp_path / "reviews" / f"{damaged.id}.json"
    path.write_bytes(torn)

    assert shelf.all() == [kept]
    (said_of_it,) = shelf.damaged()
    assert str(path) in said_of_it
    assert says in said_of_it
    with pytest.raises((InputError, StoreError), match=says):
        shelf.one(damaged.id)


def test_a_review_of_an_earlier_version_lacks_what_came_later_and_is_read(shelf, tmp_path):
    kept = shelf.keep(recorded("move"))
    path = tmp_path / "reviews" / f"{kept.id}.json"
    told = json.loads(path.read_text())
    later = ("generation_s", "by_slots", "held_tokens", "kv_token_bytes")
    told["sizing"] = {name: value for name, value in told["sizing"].items() if name not in later}
    path.write_text(json.dumps(told))

    assert shelf.one(kept.id).review.sizing.prefill == recorded("move").sizing.prefill
    assert shelf.one(kept.id).review.sizing.by_slots is None


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be written"):
        Shelf(tmp_path / "file" / "reviews").keep(recorded("move"))


def test_many_who_decide_at_once_leave_one_whole_word(shelf, tmp_path):
    kept = shelf.keep(recorded("move"))
    words = [said(why=f"reason {number} " * 20) for number in range(24)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda word: shelf.decide(kept.id, word), words))

    assert shelf.one(kept.id).decision in words
    assert len(list((tmp_path / "reviews").iterdir())) == 2
