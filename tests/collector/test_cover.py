"""Any window is covered once, by whole and up-to-date tiles, as few as there are."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collector.cover import Kept, Piece, TileRange, pieces, ranges
from collector.schema import TIERS_S

DAY_S, HOUR_S, MINUTE_S = 86_400, 3600, 60
T = 20_000 * DAY_S  # a midnight

windows = st.tuples(st.integers(0, 3 * DAY_S), st.integers(1, 4 * DAY_S)).map(
    lambda pair: (T + pair[0], T + pair[0] + pair[1])
)
short_windows = st.tuples(st.integers(0, 2 * DAY_S), st.integers(1, 3 * HOUR_S)).map(
    lambda pair: (T + pair[0], T + pair[0] + pair[1])
)
cutoffs = st.lists(st.integers(0, 5 * DAY_S), min_size=3, max_size=3).map(
    lambda ages: {
        tier_s: (T + DAY_S + age) // coarser_s * coarser_s - DAY_S
        for (tier_s, coarser_s), age in zip(
            pairwise(TIERS_S), sorted(ages, reverse=True), strict=True
        )
    }
)
dirty = st.sets(
    st.one_of(
        st.tuples(st.just(60), st.integers(0, 300).map(lambda n: T + n * 60)),
        st.tuples(st.just(3600), st.integers(0, 48).map(lambda n: T + n * 3600)),
        st.tuples(st.just(DAY_S), st.integers(0, 3).map(lambda n: T + n * DAY_S)),
    ),
    max_size=20,
).map(frozenset)


def tiles(runs):
    return [
        (run.tier_s, at_s) for run in runs for at_s in range(run.since_s, run.until_s, run.tier_s)
    ]


def test_thirty_days_from_anywhere_take_some_two_hundred_tiles():
    since_s = T + 10 * HOUR_S + 25 * MINUTE_S + 10
    steps = pieces(since_s, since_s + 30 * DAY_S + 20, None, Kept())

    found = tiles(ranges(steps, Kept()))

    assert len(found) <= 29 + 2 * 23 + 2 * 59 + 2 * 5
    assert {tier_s for tier_s, _ in found} == set(TIERS_S)


def test_a_whole_day_is_one_tile():
    assert ranges([Piece(T, T + DAY_S)], Kept()) == [TileRange(DAY_S, T, T + DAY_S)]


def test_neighbouring_tiles_are_one_range():
    assert ranges([Piece(T, T + 5 * MINUTE_S)], Kept()) == [
        TileRange(MINUTE_S, T, T + 5 * MINUTE_S)
    ]


def test_a_dirty_tile_gives_way_to_the_finer_ones_inside():
    kept = Kept(dirty=frozenset({(HOUR_S, T), (MINUTE_S, T + 120)}))

    assert ranges([Piece(T, T + HOUR_S)], kept) == [
        TileRange(MINUTE_S, T, T + 120),
        TileRange(10, T + 120, T + 180),
        TileRange(MINUTE_S, T + 180, T + HOUR_S),
    ]


def test_where_a_finer_tier_is_retired_the_whole_coarse_tile_answers_and_says_so():
    kept = Kept(cutoff_s={10: T + HOUR_S, 60: T + HOUR_S})

    steps = pieces(T + 600, T + 1200, None, kept)

    assert steps == [Piece(T, T + HOUR_S)]
    assert ranges(steps, kept) == [TileRange(HOUR_S, T, T + HOUR_S)]


def test_a_retired_tile_is_read_even_if_it_is_named_dirty():
    kept = Kept(cutoff_s={10: T + HOUR_S, 60: T + HOUR_S}, dirty=frozenset({(HOUR_S, T)}))

    assert ranges([Piece(T, T + HOUR_S)], kept) == [TileRange(HOUR_S, T, T + HOUR_S)]


def test_steps_lie_on_whole_multiples_and_the_ends_are_the_windows():
    steps = pieces(T + 130, T + 400, 120, Kept())

    assert steps == [Piece(T + 130, T + 240), Piece(T + 240, T + 360), Piece(T + 360, T + 400)]


def test_steps_finer_than_what_is_kept_become_one():
    kept = Kept(cutoff_s={10: T + HOUR_S, 60: T + HOUR_S})

    steps = pieces(T + 1800, T + HOUR_S + 120, 60, kept)

    assert steps == [
        Piece(T, T + HOUR_S),
        Piece(T + HOUR_S, T + HOUR_S + 60),
        Piece(T + HOUR_S + 60, T + HOUR_S + 120),
    ]


def test_a_window_off_the_ten_seconds_is_widened_outward():
    assert pieces(T + 3, T + 11, None, Kept()) == [Piece(T, T + 20)]


def test_a_question_about_minutes_reads_no_coarser_tile():
    found = ranges([Piece(T, T + DAY_S)], Kept(), coarsest_s=60)

    assert found == [TileRange(60, T, T + DAY_S)]


@given(windows, cutoffs, dirty)
def test_every_instant_is_covered_exactly_once(window, cutoff_s, marked):
    kept = Kept(cutoff_s, marked)
    steps = pieces(*window, None, kept)
    found = sorted(ranges(steps, kept), key=lambda run: run.since_s)

    assert len(steps) == 1
    assert found[0].since_s == steps[0].since_s <= window[0]
    assert found[-1].until_s == steps[0].until_s >= window[1]
    assert all(a.until_s == b.since_s for a, b in pairwise(found))


@given(windows, cutoffs, dirty)
def test_no_tile_is_retired_and_none_out_of_date(window, cutoff_s, marked):
    kept = Kept(cutoff_s, marked)

    for tier_s, at_s in tiles(ranges(pieces(*window, None, kept), kept)):
        assert at_s >= cutoff_s.get(tier_s, 0)
        if (tier_s, at_s) in marked:
            assert at_s < cutoff_s[TIERS_S[TIERS_S.index(tier_s) - 1]]


@given(short_windows, st.sampled_from([10, 15, 60, 77, 300, 3600]), cutoffs)
def test_steps_follow_each_other_without_gap_or_overlap(window, step_s, cutoff_s):
    steps = pieces(*window, step_s, Kept(cutoff_s))

    assert steps[0].since_s <= window[0]
    assert steps[-1].until_s >= window[1]
    assert all(a.until_s == b.since_s for a, b in pairwise(steps))
    assert all(step.since_s < step.until_s for step in steps)


@given(short_windows, st.sampled_from([10, 60, 300]), dirty)
def test_steps_and_the_whole_window_read_the_same_time(window, step_s, marked):
    kept = Kept(dirty=marked)

    def seconds(step):
        runs = ranges(pieces(*window, step, kept), kept)
        return sum(run.until_s - run.since_s for run in runs)

    assert seconds(step_s) == seconds(None)
