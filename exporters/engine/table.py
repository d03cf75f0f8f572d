"""What an engine's table is made of: our metrics, the families they come from, how to read them.

A new name costs one row. Bounds are never in a table: they are read from the page.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import lru_cache

from domain.labels import Labels

__all__ = [
    "CREATED",
    "DECODES",
    "OF_EVERY_PROCESS",
    "PARTS",
    "PREFILLS",
    "ROLES",
    "START_TIME",
    "WHOLE",
    "Engine",
    "Family",
    "Row",
    "Shape",
    "Spelling",
    "spellings",
    "wanted",
]

START_TIME = "process_start_time_seconds"
OF_EVERY_PROCESS = frozenset({START_TIME, "process_cpu_seconds_total"})
"""Names that any program's page has: they make no engine of it."""
CREATED = "_created"
PARTS = ("_bucket", "_sum", "_count")

WHOLE = frozenset({"", "both"})
PREFILLS = WHOLE | {"prefill"}
DECODES = WHOLE | {"decode"}
ROLES = PREFILLS | DECODES


class Shape(StrEnum):
    """What we read from a family."""

    LATENCY = "latency"  # a histogram becomes pairs
    MEAN = "mean"  # a counter of time and one of what took it become pairs without buckets
    ESTIMATE = "estimate"  # the histograms of parts, one after the other, become one pair
    EVENTS = "events"  # the count of a histogram becomes a counter
    TOTAL = "total"  # the sum of a histogram becomes a counter
    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"  # a number that stands in a label


_HISTOGRAMS = (Shape.LATENCY, Shape.ESTIMATE, Shape.EVENTS, Shape.TOTAL)


@dataclass(frozen=True, slots=True)
class Family:
    """A family by its name without the engine's prefix, and which of its series are meant.

    `only`: series that carry all of these labels. `but`: not those that carry one of them.
    `rather`: where one of these counts anything, only they are read (the outermost of several
    models that each count the same requests). `seconds_per_unit` is ours, HELP texts are wrong.
    `sample`: what one sample is of, where engines differ. `per`: the counter of what took the
    time of a MEAN. `label`: where the number of an INFO stands. `bare`: it has no prefix. `digits`: how many the engine
    prints, where that is fewer than a number has. `versions` is for the reader of the reference.
    """

    name: str
    _: KW_ONLY
    only: Labels = ()
    but: Labels = ()
    rather: Labels = ()
    seconds_per_unit: float = 1.0
    sample: str = ""
    per: "Family | None" = None
    label: str = ""
    bare: bool = False
    digits: int = 0
    versions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One of our metrics: the families it may come from, best first (of an ESTIMATE: its parts).

    Several rows of one metric add up. `roles` are those of targets it is true for: one half of a
    disaggregated pair sees no user's TTFT. `without` names a histogram of token counts: its
    requests of at most one token observed 0 here. `note` is for the reader of the reference.
    """

    metric: str
    shape: Shape
    families: tuple[Family, ...]
    roles: frozenset[str] = ROLES
    without: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine:
    """One engine's page: how it is recognised, what its labels are called, what it says.

    `name` is the value of our label `engine`. `marks` are beginnings of names that show it, its
    prefixes unless told. `labels` pair their names with ours, the first that has a value wins;
    labels that are not named are added up, but `copies`: ranks that each tell the same. `live`
    families move with every step or token; `signs` move too, but their standing still says
    nothing. `complete`: every family is on the page from the start, so one that vanishes is drift.
    """

    name: str
    title: str
    prefixes: tuple[str, ...]
    rows: tuple[Row, ...]
    marks: tuple[str, ...] = ()
    labels: Labels = (("model_name", "model"),)
    copies: tuple[str, ...] = ()
    source: str = "page"
    complete: bool = False
    live: tuple[Family, ...] = ()
    signs: tuple[Family, ...] = ()
    switch: str = ""
    lacks: str = ""

    @property
    def beginnings(self) -> tuple[str, ...]:
        return self.marks or self.prefixes


@dataclass(frozen=True, slots=True)
class Spelling:
    """A family as a page may write it."""

    name: str
    family: Family


@lru_cache(maxsize=4096)
def spellings(engine: Engine, row: Row) -> tuple[Spelling, ...]:
    """All spellings of a row's families, best first."""
    return tuple(
        Spelling(name, family)
        for family in row.families
        for name in _named(engine, family, counts=row.shape in (Shape.COUNTER, Shape.MEAN))
    )


def _named(engine: Engine, family: Family, *, counts: bool) -> tuple[str, ...]:
    if family.bare:
        return tuple(family.name + ending for ending in (("_total", "") if counts else ("",)))
    return names(engine, family.name, counts=counts)


@lru_cache(maxsize=4096)
def names(engine: Engine, name: str, *, counts: bool = False) -> tuple[str, ...]:
    """The full names of a family under the engine's prefixes; of a counter with both endings."""
    endings = ("_total", "") if counts else ("",)
    return tuple(prefix + name + ending for prefix in engine.prefixes for ending in endings)


def wanted(engines: Iterable[Engine]) -> frozenset[str]:
    """The name of every sample that these tables read."""
    found = {START_TIME}
    for engine in engines:
        for row in engine.rows:
            for spelling in spellings(engine, row):
                found |= _samples(spelling.name, row.shape)
            for family in row.families:
                if family.per is not None:
                    found.update(names(engine, family.per.name, counts=True))
            if row.without:
                found.update(n + part for n in names(engine, row.without) for part in PARTS)
        for family in (*engine.live, *engine.signs):
            found.update(names(engine, family.name))
    return frozenset(found)


def _samples(name: str, shape: Shape) -> set[str]:
    """The names of a family's samples, and of when it was made."""
    found = {name, name + CREATED, name.removesuffix("_total") + CREATED}
    if shape in _HISTOGRAMS:
        found.update(name + part for part in PARTS)
    return found
