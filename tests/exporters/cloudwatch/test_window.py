"""Windows: aligned, half-open, and together they leave nothing out."""

from hypothesis import given
from hypothesis import strategies as st

from exporters.cloudwatch.window import ReadWindow, read_window

T0 = 1_780_000_020
WAYS = {"period_s": 60, "reread_s": 1200, "backfill_s": 10_800}


@given(st.floats(T0, T0 + 1e6), st.none() | st.integers(0, 200))
def test_a_window_is_aligned_and_leaves_the_running_period_out(now_s, minutes_ago):
    read_until_s = None if minutes_ago is None else int(now_s // 60 - minutes_ago) * 60

    window = read_window(now_s, read_until_s, **WAYS)

    assert window.since_s % 60 == window.until_s % 60 == 0
    assert now_s - 60 < window.until_s <= now_s
    assert window.since_s < window.until_s
    assert window.until_s - window.since_s <= 10_800


@given(st.lists(st.floats(1, 900), min_size=1, max_size=50), st.data())
def test_whenever_the_calls_come_a_point_up_to_15_minutes_late_is_read(gaps_s, data):
    late_s = data.draw(st.floats(0, 900))
    now_s, read_until_s, windows = float(T0), None, []
    for gap_s in [*gaps_s, 900.0, 900.0]:
        window = read_window(now_s, read_until_s, **WAYS)
        windows.append((now_s, window))
        read_until_s = window.until_s
        now_s += gap_s
    last_s = windows[-1][0]

    for start in range(T0, int(last_s - late_s - 60), 60):
        visible_s = start + 60 + late_s
        assert (
            any(at_s >= visible_s and start in window.starts(60) for at_s, window in windows)
            or visible_s > last_s
        )


def test_after_an_outage_a_call_reads_as_far_back_as_allowed():
    assert read_window(T0 + 7200, T0, **WAYS) == ReadWindow(T0 - 1200, T0 + 7200)
    assert read_window(T0 + 86_400, T0, **WAYS) == ReadWindow(T0 + 75_600, T0 + 86_400)
