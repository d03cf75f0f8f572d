"""Which family of a page is read for which row: the one read before while it is there.

Old and new names that are alive together say the same thing, and of several engines on one page the
first one's word counts. A family that vanishes while its target is up and serving is drift.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from exporters.engine.capability import is_there
from exporters.engine.table import PARTS, Engine, Row, Shape, Spelling, spellings
from exporters.engine.text import Page

__all__ = ["Choice"]

_Key = tuple[Engine, Row]

_TOLD_WHEN_SERVING = frozenset(
    {"ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode", "kv_cache_usage"}
    | {"requests_started", "requests_finished", "prompt_tokens", "generation_tokens"}
)
"""What a page must have again once a request has ended; failures may never come."""


@dataclass(slots=True)
class Choice:
    """What was read on the pages before, and what became of it on this one."""

    absent: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _before: dict[_Key, Spelling] = field(default_factory=dict)
    _taken: dict[str, Engine] = field(default_factory=dict)
    _gone: dict[_Key, str] = field(default_factory=dict)
    _waiting: dict[_Key, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _seen_now: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """A new page."""
        self._taken.clear()
        self._gone.clear()
        self.notes.clear()
        self._seen |= self._seen_now
        self._seen_now.clear()

    def forget(self) -> None:
        """Another process answers: what it calls its families is open again."""
        self._seen.clear()
        self._seen_now.clear()

    def has_seen(self, name: str) -> bool:
        """Whether this family was on an earlier page, without being read."""
        return name in self._seen

    def of(self, page: Page, engine: Engine, row: Row) -> tuple[Spelling, ...]:
        """The family to read for this row; of an estimate all of its parts; none where absent."""
        present = [each for each in spellings(engine, row) if _is_meant(page, each, row.shape)]
        if row.shape is Shape.ESTIMATE:
            return _parts(present, row)
        key, before = (engine, row), self._before.get((engine, row))
        if not present:
            self._miss(page, key, before)
            return ()
        chosen = before if before in present else present[0]
        is_first = self._taken.setdefault(row.metric, engine) is engine
        self._seen_now |= {each.name for each in present if each != chosen or not is_first}
        if not is_first:
            return ()
        if before is not None and chosen != before and chosen.name != before.name:
            self.notes.append(f"{row.metric}: {before.name} is now called {chosen.name}")
        self._before[key] = chosen
        self._waiting.pop(key, None)
        self.absent.discard(row.metric)
        return (chosen,)

    def drifted(self, *, same_process: bool, serving: bool) -> Iterator[tuple[str, str]]:
        """Metric and family of everything that is now known to have vanished."""
        for (engine, row), name in self._gone.items():
            del self._before[engine, row]
            if engine.complete or same_process:
                yield from self._lost(row, name)
            else:
                self._waiting[engine, row] = name
        if not serving:
            return
        for (_, row), name in self._waiting.items():
            if row.metric in _TOLD_WHEN_SERVING:
                yield from self._lost(row, name)
        self._waiting.clear()

    def _miss(self, page: Page, key: _Key, before: Spelling | None) -> None:
        """Gone, unless the page was cut off or only the series that are meant are not there yet."""
        if before is not None and not page.torn and not is_there(page, before.name, key[1].shape):
            self._gone[key] = before.name

    def _lost(self, row: Row, name: str) -> Iterator[tuple[str, str]]:
        if row.metric not in self._taken:
            self.absent.add(row.metric)
            yield row.metric, name


def _is_meant(page: Page, spelling: Spelling, shape: Shape) -> bool:
    name, only = spelling.name, set(spelling.family.only)
    if not is_there(page, name, shape):
        return False
    return not only or any(
        only.issubset(series.labels)
        for part in ("", *PARTS)
        for series, _ in page.samples(name + part)
    )


def _parts(present: Iterable[Spelling], row: Row) -> tuple[Spelling, ...]:
    by_family = {each.family: each for each in reversed(list(present))}
    found = tuple(by_family[family] for family in row.families if family in by_family)
    return found if len(found) == len(row.families) else ()
