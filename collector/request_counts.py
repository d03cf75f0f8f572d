"""How many requests of each service ended how, minute by minute, as the source we believe counts them.

A service is believed by one source at a time (`collector.precedence`), judged by everything that
counts requests together: one source's ends are never set against another's failures. Where a page
has a counter of answers, that is believed; else the end-to-end latencies are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from collector.legs import Integers
from collector.minute_tiles import MinuteTiles
from collector.precedence import Precedence
from collector.schema import TIERS_S
from collector.threshold_cut import cut_at
from collector.tile_table import TileTable
from domain.indicator import Limit
from domain.labels import Labels, labels_of, value_of
from domain.slice import MINUTE_S

__all__ = ["Counted", "Key", "counted"]

Key = tuple[int, str]  # minute, service

_ANSWERS, _PROBES = "requests_finished", "probes"
_COUNTERS = (_ANSWERS, "requests_failed", "requests_cancelled", "requests_rejected")
_MEASURED = ("ttft", "e2e")
_EXACT = frozenset(("span", "client", "probe"))
_NOT_ASKED = frozenset(("waiting", "capped", "no_books"))
_UNDER_LOAD = frozenset(("http_408", "http_425", "http_429"))


@dataclass(slots=True)
class Counted:
    """One minute of one service.

    `n`: values of each latency; `good`: of one that is limited, how many surely and possibly are.
    """

    source: str = ""
    series: set[int] = field(default_factory=set)
    n: dict[str, int] = field(default_factory=dict)
    good: dict[str, tuple[int, int]] = field(default_factory=dict)
    grown: dict[str, float] = field(default_factory=dict)  # counters
    probes: dict[str, float] = field(default_factory=dict)  # by how they ended
    counts_answers: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether its requests may be kept one by one."""
        return self.source in _EXACT

    @property
    def answered(self) -> int:
        """By a counter of answers, or by what was timed to the end; spans may say a TTFT only."""
        if self.counts_answers:
            return self.of(_ANSWERS)
        timed = self.n.get("e2e", 0)
        return timed or (self.n.get("ttft", 0) if self.is_exact else 0)

    @property
    def failed(self) -> int:
        """Of probes that are only counted, all that were asked and neither answered nor refused."""
        if self.probes:
            return max(self._probed - self.answered, 0)
        return self.of("requests_failed")

    @property
    def excluded(self) -> int:
        return self.of("requests_cancelled") + self.of("requests_rejected") + self._wrong

    @property
    def _probed(self) -> int:
        asked = (n for why, n in self.probes.items() if why not in _NOT_ASKED)
        return round(sum(asked)) - self._wrong

    @property
    def _wrong(self) -> int:
        """Probes that were refused for what they asked (HTTP 4xx), not under load."""
        return round(
            sum(
                n
                for why, n in self.probes.items()
                if (why.startswith("http_4") or why == "redirect") and why not in _UNDER_LOAD
            )
        )

    def of(self, counter: str) -> int:
        """What a counter grew by."""
        return round(self.grown.get(counter, 0.0))

    def add_probes(self, table: TileTable, rows: Integers, tiles: MinuteTiles) -> None:
        """Probes by the word for how they ended."""
        by_id = tiles.snapshot.labels.by_id
        for row in rows.tolist():
            why = value_of(by_id[int(table.series_id[row])], "reason")
            self.probes[why] = self.probes.get(why, 0.0) + float(table.total[row])


def counted(tiles: MinuteTiles, where: Labels, limits: Sequence[Limit]) -> dict[Key, Counted]:
    """Every minute of every service of which anything was counted, by the believed source."""
    cuts = {limit.metric: cut_at(float(limit.threshold_s)) for limit in limits}
    metrics = dict.fromkeys((*_MEASURED, *cuts, *_COUNTERS, _PROBES))
    tables = {
        metric: tiles.near(metric, where, counts_only=metric not in cuts) for metric in metrics
    }
    judge = _Judge(tiles, where, tables.values())
    found: dict[Key, Counted] = {}
    for metric, table in tables.items():
        believed = judge.sift(table)
        for minute, rows in judge.minutes(believed, found):
            if metric == _PROBES:
                minute.add_probes(believed, rows, tiles)
            elif metric in _COUNTERS:
                minute.grown[metric] = float(believed.total[rows].sum())
            else:
                minute.n[metric] = int(believed.count[rows].sum())
        if metric in cuts:
            splits = believed.split(cuts[metric])
            for minute, rows in judge.minutes(believed, found):
                low, high = int(splits.good_low[rows].sum()), int(splits.good_high[rows].sum())
                # why sorted: a pair whose sides belie each other leaves doubt, no error
                minute.good[metric] = (min(low, high), max(low, high))
    _find_answers(tiles, found)
    return found


class _Judge:
    """Whom to believe, by all that each source counts, and whose the tiles are."""

    def __init__(self, tiles: MinuteTiles, where: Labels, tables: Iterable[TileTable]) -> None:
        self._window, self._by_id = tiles.window, tiles.snapshot.labels.by_id
        labels = tiles.snapshot.labels
        places = {} if value_of(where, "source") else labels.contested(where, apart=False)
        self._precedence = None
        if places:
            # why ten seconds: of a tile of a minute it is not known which ten
            held = (
                (TIERS_S[0], at_s, number)
                for table in tables
                for at_s, number in set(
                    zip(table.at_s.tolist(), table.series_id.tolist(), strict=True)
                )
            )
            self._precedence = Precedence(places, held)

    def sift(self, table: TileTable) -> TileTable:
        """The tiles inside the window, of the sources that are believed in their minute."""
        if not len(table):
            return table
        inside = (table.at_s >= self._window.since_s) & (table.at_s < self._window.until_s)
        precedence = self._precedence
        if precedence is not None:
            places = zip(table.minute_at_s.tolist(), table.series_id.tolist(), strict=True)
            inside &= np.array(
                [precedence.believes(MINUTE_S, at_s, number) for at_s, number in places], bool
            )
        return table if inside.all() else table.take(inside.nonzero()[0])

    def minutes(
        self, table: TileTable, found: dict[Key, Counted]
    ) -> Iterator[tuple[Counted, Integers]]:
        """Each minute of each service that has tiles, and their rows."""
        if not len(table):
            return
        numbers, series = np.unique(table.series_id, return_inverse=True)
        names = [value_of(self._by_id[each], "service") for each in numbers.tolist()]
        services = {name: place for place, name in enumerate(dict.fromkeys(names))}
        of_series = np.array([services[name] for name in names], np.int64)
        key = table.minute_at_s * len(services) + of_series[series]
        order = key.argsort(kind="stable")
        ends = np.flatnonzero(np.diff(key[order], append=-1)) + 1
        known = list(services)
        for first, end in pairwise((0, *ends.tolist())):
            rows = order[first:end]
            at_s, place = divmod(int(key[rows[0]]), len(services))
            minute = found.setdefault((at_s, known[place]), Counted())
            own = table.series_id[rows].tolist()
            minute.series.update(own)
            minute.source = value_of(self._by_id[own[0]], "source")
            yield minute, rows


def _find_answers(tiles: MinuteTiles, found: Mapping[Key, Counted]) -> None:
    """Whether each source counts its answers: where none ended well, its counter says nothing."""
    told: dict[tuple[str, str], bool] = {}
    for (_, service), minute in found.items():
        if minute.source in _EXACT:
            continue
        place = (service, minute.source)
        if minute.grown.get(_ANSWERS):
            told[place] = True
        if place not in told:
            asked = labels_of({"service": service, "source": minute.source})
            told[place] = tiles.told_before(_ANSWERS, asked)
        minute.counts_answers = told[place]
