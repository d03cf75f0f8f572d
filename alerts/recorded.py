"""A query door that knows one thing: the minutes of one objective, as somebody wrote them down."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from collector.query import EndpointSeries, Freshness, Numbers, Selection, Series, Stages, Window
from domain.condition import Condition, ConditionKind
from domain.gpu import Gpus
from domain.indicator import Indicator
from domain.labels import Labels
from domain.leg_columns import LegColumns
from domain.request import Request
from domain.request_columns import RequestColumns, Traced
from domain.slice import MINUTE_S, Slice

__all__ = ["RecordedMinutes"]


class RecordedMinutes:
    """Implements `collector.query.Reader` up to `now_s`. Whatever else is asked, nobody measured."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = {each.minute_at_s: each for each in slices}
        self.now_s = 0

    def slices(self, indicator: Indicator, window: Window) -> Sequence[Slice]:
        """The same minutes whatever is promised; those that were not written: not observed."""
        del indicator
        return [
            self._slices.get(at_s) or Slice(minute_at_s=at_s, observed=False)
            for at_s in range(window.since_s, window.until_s, MINUTE_S)
        ]

    def slices_of(
        self, indicators: Sequence[Indicator], window: Window
    ) -> Sequence[Sequence[Slice]]:
        return [self.slices(each, window) for each in indicators]

    def settled_s(self, indicator: Indicator, now_s: float) -> int | None:
        del indicator, now_s
        return None

    def watermark_s(self) -> int | None:
        return self.now_s

    def latency(self, metric: str, selection: Selection) -> Sequence[Series]:
        del metric, selection
        return ()

    def numbers(self, metric: str, selection: Selection) -> Sequence[Numbers]:
        del metric, selection
        return ()

    def stages(self, selection: Selection) -> Sequence[Stages]:
        del selection
        return ()

    def requests(
        self, window: Window, *, where: Labels = (), limit: int = 100, slowest_by: str | None = None
    ) -> Sequence[Request]:
        del window, where, limit, slowest_by
        return ()

    def request(self, trace_id: bytes) -> Request | None:
        del trace_id
        return None

    def traced(self, trace_id: bytes) -> Sequence[Traced]:
        del trace_id
        return ()

    def request_columns(self, window: Window, *, where: Labels = ()) -> RequestColumns:
        del window, where
        return RequestColumns.empty()

    def legs(self, window: Window, *, where: Labels = (), most: int = 20_000) -> LegColumns:
        del window, where, most
        return LegColumns.empty()

    def edges_around(
        self, indicator: Indicator, window: Window
    ) -> tuple[Fraction, Fraction] | None:
        del indicator, window
        return None

    def endpoints(
        self, window: Window, *, service: str = "", metric: str = ""
    ) -> Sequence[EndpointSeries]:
        del window, service, metric
        return ()

    def gpus(self, window: Window, *, where: Labels = (), step_s: int | None = None) -> Gpus:
        del where, step_s
        return Gpus(since_s=window.since_s, until_s=window.until_s)

    def label_values(self, name: str, window: Window) -> Sequence[str]:
        del name, window
        return ()

    def freshness(self, window: Window, *, service: str = "") -> Sequence[Freshness]:
        del window, service
        return ()

    def conditions(
        self,
        at_s: int,
        *,
        where: Labels = (),
        kinds: Collection[ConditionKind] = (),
        over_within_s: int = 0,
    ) -> Sequence[Condition]:
        del at_s, where, kinds, over_within_s
        return ()

    def health(self) -> Mapping[str, float]:
        return {}

    def export(self, window: Window, *, where: Labels = ()) -> Iterator[Request]:
        del window, where
        return iter(())
