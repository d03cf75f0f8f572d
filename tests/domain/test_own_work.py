"""What we do is told to whoever asked for it, and costs nothing where nobody did."""

from contextlib import contextmanager

import pytest

from domain.own_work import Kind, own_work, traced_by


class Listener:
    def __init__(self):
        self.heard = []

    @contextmanager
    def piece(self, name, kind, attributes, *, quiet):
        self.heard.append((name, kind, dict(attributes), quiet))
        yield self

    def tell(self, name, value):
        self.heard.append((name, value))


def test_a_piece_of_work_is_told_with_what_is_known_at_its_end():
    listener = Listener()
    with traced_by(listener), own_work("evaluate", {"n": 2}, Kind.CLIENT) as piece:
        piece.tell("fate", "delivered")

    assert listener.heard == [("evaluate", Kind.CLIENT, {"n": 2}, False), ("fate", "delivered")]


def test_nobody_is_told_before_or_after():
    listener = Listener()
    with traced_by(listener):
        pass
    with own_work("evaluate") as piece:
        piece.tell("n", 1)

    assert not listener.heard


def test_what_goes_wrong_goes_on():
    with pytest.raises(ValueError, match="x"), own_work("evaluate"):
        raise ValueError("x")


def test_nothing_is_made_for_a_piece_that_nobody_hears_of():
    assert own_work("one") is own_work("other")
