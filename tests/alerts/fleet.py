"""A fleet in memory for the tests of alerts: slices that can be told late, and stages."""

from alerts.definition import load
from alerts.recorded import RecordedMinutes
from domain.slice import Slice

__all__ = ["START_S", "Fleet", "chat", "minute", "outage"]

START_S = 1_772_352_000  # 2026-03-01T08:00:00Z


def minute(index, good=600, total=600, *, high=None):
    """The minute `index` after START_S; total None: nobody looked."""
    at_s = START_S + 60 * index
    if total is None:
        return Slice(minute_at_s=at_s, observed=False)
    high = good if high is None else high
    return Slice(minute_at_s=at_s, good_low=good, good_high=high, total=total)


def outage(good_minutes, bad_minutes, after=0):
    """Good minutes, bad ones, good ones."""
    pattern = [600] * good_minutes + [0] * bad_minutes + [600] * after
    return [minute(index, good) for index, good in enumerate(pattern)]


def chat(text="- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat}"):
    """The objectives of a text; by default one."""
    return load(text)


class Fleet(RecordedMinutes):
    """Minutes that appear when they are told, by metric, and stages by window and grouping."""

    def __init__(self, slices=()):
        super().__init__(slices)
        self.watermark = None
        self.told_stages = []
        self.broken = None

    def tell(self, *slices):
        self._slices.update({each.minute_at_s: each for each in slices})

    def watermark_s(self):
        return self.watermark

    def slices(self, indicator, window):
        if self.broken is not None:
            raise self.broken
        return super().slices(indicator, window)

    def stages(self, selection):
        return [
            each
            for each in self.told_stages
            if each.window.since_s <= selection.window.since_s < each.window.until_s
            and bool(each.labels) == bool(selection.by)
        ]
