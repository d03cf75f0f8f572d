"""Which stage carries what P99 grew by, and what is not known is not named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.query import Flow, Stages, StageShare, Window
from dashboard.attribution import Excess, attribution, grown, growths, short_text
from dashboard.measure import last_week
from dashboard.url import PROMPT, View
from domain.distribution import EMPTY, exact
from domain.labels import labels_of
from domain.request import Stage
from domain.request_columns import REQUEST_VALUES, RequestColumns
from tests.dashboard.conftest import NOW_S
from tests.dashboard.reading import text

HOUR = Window(since_s=NOW_S - 3600, until_s=NOW_S)
FLOW = Flow(started=None, finished=None, failed=None, cancelled=None, rejected=None)


def measured(*, ttft_s=1.0, e2e_s=5.0, **stages_s):
    def whole(value_s):
        return exact(np.full(100, value_s)) if value_s is not None else EMPTY

    shares = [
        StageShare(stage=Stage(name), distribution=whole(value_s), mean_s=value_s, share=None)
        for name, value_s in stages_s.items()
    ]
    return Stages(
        labels=labels_of({"replica": "a"}), window=HOUR, e2e=whole(e2e_s), ttft=whole(ttft_s),
        stages=shares, missing=(), flow=FLOW,
    )  # fmt: skip


def test_the_stage_that_grew_carries_it_surely():
    now = measured(ttft_s=2.5, queue=2.0, prefill=0.3)
    found = grown("chat", now, measured(ttft_s=0.6, queue=0.1, prefill=0.3))

    assert (found.metric, found.carrier, found.surely) == ("ttft", Stage.QUEUE, True)
    assert found.excess.low_s == pytest.approx(1.9, abs=0.03)
    assert short_text(found).endswith("on last week: queue")


def test_of_two_stages_that_grew_alike_the_first_is_only_possible():
    now = measured(ttft_s=2.5, queue=1.0, prefill=1.0)
    found = grown("chat", now, measured(ttft_s=0.6, queue=0.1, prefill=0.1))

    assert not found.surely
    assert "possibly" in short_text(found)


def test_where_only_the_answer_grew_decode_is_named():
    now = measured(ttft_s=0.5, e2e_s=9.0, queue=0.1, decode=8.5)
    found = grown("chat", now, measured(ttft_s=0.5, e2e_s=5.0, queue=0.1, decode=4.5))

    assert (found.metric, found.carrier) == ("e2e", Stage.DECODE)


def test_without_a_past_nothing_has_grown_and_nobody_is_named():
    for before in (None, measured(ttft_s=None, e2e_s=None)):
        found = grown("chat", measured(queue=1.0), before)

        assert (found.before, found.excess, found.carrier) == (None, None, None)
        assert short_text(found) == "last week: no data"


def test_what_did_not_grow_has_no_carrier():
    found = grown("chat", measured(queue=1.0), measured(queue=0.1))

    assert found.carrier is None
    assert short_text(found) == ""


@given(st.floats(0.001, 50), st.floats(0.001, 50))
def test_the_true_growth_lies_within_the_range(now_s, before_s):
    found = grown("x", measured(ttft_s=now_s), measured(ttft_s=before_s))

    assert found.excess.low_s <= now_s - before_s <= found.excess.high_s


@pytest.mark.parametrize(
    ("low_s", "high_s", "said"),
    [(1.0, 1.2, "+1–1.2 s"), (-0.2, 0.5, "−200 ms … +500 ms"), (-1.2, -1.0, "−1–1.2 s")],
)
def test_a_growth_is_told_as_a_range(low_s, high_s, said):
    assert str(Excess(low_s=low_s, high_s=high_s)) == said


class Kept:
    """Single requests of this hour and of the same one last week."""

    def __init__(self, now, before):
        self.by_window = {HOUR: now, last_week(HOUR): before}

    def request_columns(self, window, *, where=()):  # noqa: ARG002 - as the protocol names it
        return self.by_window[window]


def columns(*rows):
    """Of prompt tokens, TTFT and queue."""
    values = {name: np.full(len(rows), np.nan) for name in REQUEST_VALUES}
    for place, (tokens, ttft_s, queue_s) in enumerate(rows):
        values["prompt_tokens"][place] = tokens
        values["ttft"][place], values["queue"][place] = ttft_s, queue_s
    count = len(rows)
    return RequestColumns(
        trace_ids=[b""] * count, end_at_s=np.zeros(count), outcome=np.zeros(count, np.uint8),
        complete=np.ones(count, bool), labels=[()] * count, values=values,
    )  # fmt: skip


def by_prompt(now, before):
    from collector.query import Selection

    view = View(service="chat", by=PROMPT)
    return growths(Kept(now, before), Selection(window=HOUR), view, {})


def test_long_prompts_that_became_slow_are_found_by_their_length():
    now = columns((100, 0.2, 0.1), (5000, 9.0, 8.5), (np.nan, 99.0, 99.0))
    short, long = by_prompt(now, columns((100, 0.2, 0.1), (5000, 1.0, 0.5)))

    assert (short.name, short.carrier) == ("0–255", None)
    assert (long.name, long.carrier) == ("4096–16383", Stage.QUEUE)


def test_requests_that_are_no_longer_kept_are_no_past(viewer):
    found = by_prompt(columns((100, 0.2, 0.1)), columns())
    whole = grown("chat", measured(queue=1.0), None)
    told = text(attribution(whole, found, View(service="chat", by=PROMPT), viewer))

    assert [each.excess for each in found] == [None]
    assert "nothing is kept to hold it to" in told
    assert "no data" in told
