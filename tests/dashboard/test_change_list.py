"""What changed, as few rows and as few names as say all of it."""

import pytest
from dash import html

from alerts.change import Change
from dashboard.change_list import change_table, instants
from dashboard.parts import stage_bar
from dashboard.probe_targets import Target
from dashboard.probes import short_names
from dashboard.stages import StageRow
from domain.distribution import EMPTY
from domain.labels import labels_of
from domain.request import Stage
from tests.dashboard.conftest import NOW_S
from tests.dashboard.reading import find_all, text


def change(ago_s, kind="throttling", title="GPU 0 held down", **more):
    return Change(at_s=NOW_S - ago_s, kind=kind, title=title, **more)


def test_what_happened_again_and_again_is_one_row_at_its_newest(viewer):
    often = [change(ago_s) for ago_s in range(3000, 0, -120)]
    rows = find_all(change_table([change(4000, "deploy", "v1"), *often], viewer, past=""), html.Tr)

    assert len(rows) == 1 + 2
    assert f"25 times since  {viewer.clock(NOW_S - 3000)}" in text(rows[1])
    assert viewer.clock(NOW_S - 120, seconds=True) in text(rows[1])
    assert "v1" in text(rows[2])


def test_what_differs_in_anything_stays_apart(viewer):
    told = [change(90), change(60, author="ada"), change(30, labels=labels_of({"service": "chat"}))]

    assert len(find_all(change_table(told, viewer, past=""), html.Tr)) == 1 + 3


def test_lines_that_would_overlap_are_one_named_by_its_kind_if_it_is_one(viewer):
    near = instants([change(30), change(20)], viewer, width_s=3600)
    mixed = instants([change(30), change(20, "deploy")], viewer, width_s=3600)

    assert [each.label for each in near] == ["throttling"]
    assert [each.label for each in mixed] == ["2 changes"]


def test_a_bar_of_stages_of_which_none_is_known_is_no_bar():
    row = StageRow(stage=Stage.QUEUE, distribution=EMPTY, now_s=None, before_s=None, share=None)

    assert stage_bar([row]) is None


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ([{"region": "eu"}, {"region": "us"}], ["eu", "us"]),
        (
            [{"service": "chat", "region": "eu"}, {"service": "code", "region": "eu"}],
            ["chat eu", "code eu"],
        ),
        (
            [{"region": "eu", "replica": "a"}, {"region": "eu", "replica": "b"}],
            ["eu a", "eu b"],
        ),
        ([{}], ["not named"]),
    ],
)
def test_a_target_is_called_by_as_little_as_tells_it_from_the_others(told, names):
    assert short_names([Target(labels=labels_of(each)) for each in told]) == names
