"""Legs as columns say what the legs themselves say, of the window and of who was asked for."""

import numpy as np
import pytest

from collector.query import Window
from collector.reader import StoreReader
from domain.leg import LegKind
from domain.leg_columns import LEG_VALUES, LegColumns
from tests.collector.storing import NOW_S, legs_in, overload, writing

WHERE = (("service", "chat"),)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overload")
    with writing(folder) as writer:
        for export in overload():
            writer.traces(export)
        writer.settle()
    return folder


@pytest.fixture(scope="module")
def reader(store):
    found = StoreReader(store, now=lambda: NOW_S)
    yield found
    found.close()


def window(legs):
    ends = [leg.end_at_ns // 1_000_000_000 for leg in legs]
    return Window(since_s=min(ends), until_s=max(ends) + 1)


def row(kind, values, end_at_s):
    return kind, tuple(None if np.isnan(each) else float(each) for each in values), end_at_s


def test_every_leg_is_a_row_with_its_values(store, reader):
    legs = legs_in(store)
    found = reader.legs(window(legs))
    kinds = list(LegKind)
    names = [each if each.endswith("tokens") else f"{each}_s" for each in LEG_VALUES]

    rows = {
        row(kinds[found.kind[at]], [found.values[n][at] for n in LEG_VALUES], found.end_at_s[at])
        for at in range(len(found))
    }
    assert len(found) == len(legs) > 100
    assert rows == {
        (leg.kind, tuple(getattr(leg, name) for name in names), leg.end_at_ns / 1e9) for leg in legs
    }
    assert len(set(found.trace.tolist())) == len({leg.trace_id for leg in legs})
    assert found.of_kind(*LegKind).all()


def test_only_the_window_and_who_is_asked_for_are_read(store, reader):
    whole = window(legs_in(store))
    half = Window(since_s=whole.since_s, until_s=(whole.since_s + whole.until_s) // 2)
    service = dict(reader.legs(whole).names[0])["service"]

    assert 0 < len(reader.legs(half)) < len(reader.legs(whole))
    assert len(reader.legs(whole, where=(("service", service),))) > 0
    assert len(reader.legs(whole, where=(("service", "nobody"),))) == 0
    assert len(LegColumns.empty()) == 0


def test_the_newest_are_read_and_it_says_how_far_back_they_reach(store, reader):
    whole = window(legs_in(store))
    few = reader.legs(whole, most=1)

    assert reader.legs(whole).reaches_s is None
    assert len(few) < len(reader.legs(whole))
    assert few.reaches_s is not None
    assert few.end_at_s.max() == reader.legs(whole).end_at_s.max()
