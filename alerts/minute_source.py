"""The minutes of objectives as their sources tell them: up to when they are closed, and what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.query import Reader, Window
from domain.errors import StoreError
from domain.indicator import Indicator
from domain.slice import MINUTE_S, Slice

__all__ = ["MinuteSource", "Told"]

Told = Sequence[Slice] | Exception
"""Minutes, or why they cannot be read."""


class MinuteSource:
    """Asks the query door; what several objectives ask of one window is read at once."""

    def __init__(self, reader: Reader, *, grace_s: float) -> None:
        self._reader = reader
        self._grace_s = grace_s

    def closed_s(self, now_s: float) -> int:
        """Up to here every live source has passed, or had `grace_s` to do so."""
        graced_s = now_s - self._grace_s
        watermark_s = self._reader.watermark_s()
        closed_s = graced_s if watermark_s is None else max(graced_s, min(watermark_s, now_s))
        return int(closed_s) // MINUTE_S * MINUTE_S

    def closed_for_s(self, indicator: Indicator, now_s: float, closed_s: int) -> int:
        """The same for one promise: a source that settles late is judged when it has settled."""
        settled_s = self._reader.settled_s(indicator, now_s)
        return closed_s if settled_s is None else int(settled_s) // MINUTE_S * MINUTE_S

    def minutes(self, indicator: Indicator, window: Window) -> Sequence[Slice]:
        return self._reader.slices(indicator, window)

    def minutes_of(self, wanted: Iterable[tuple[Indicator, Window]]) -> list[Told]:
        """The minutes of each, in order. What one of them cannot have holds up no other."""
        asked = list(wanted)
        together: dict[tuple[int, int], list[int]] = {}
        for place, (_, window) in enumerate(asked):
            together.setdefault((window.since_s, window.until_s), []).append(place)
        told: dict[int, Told] = {}
        for places in together.values():
            told.update(zip(places, self._at_once([asked[each] for each in places]), strict=True))
        return [told[place] for place in range(len(asked))]

    def _at_once(self, asked: Sequence[tuple[Indicator, Window]]) -> Sequence[Told]:
        try:
            return self._reader.slices_of([indicator for indicator, _ in asked], asked[0][1])
        except StoreError:
            raise  # why: it is everybody's
        except Exception:  # noqa: BLE001 - why all: whose it is shows when they are asked one by one
            return [self._alone(indicator, window) for indicator, window in asked]

    def _alone(self, indicator: Indicator, window: Window) -> Told:
        try:
            return self._reader.slices(indicator, window)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - why all: it is this objective's alone
            return error
