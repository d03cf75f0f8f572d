"""Prometheus text pages: the samples we want, found by their series text in a cache.

A series is written the same way on every page, so its labels are parsed once; after that a line
costs one split and one look-up. Lines that are new, or not `series value`, are parsed with care.
A last line without a line feed was cut off and is not believed: `14` may have been `144`.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from domain.labels import Labels
from exporters.engine.failure import ScrapeError

__all__ = ["Page", "PageParser", "Series", "page_of"]

_BYTE_ORDER_MARK = "\ufeff"
_END = "# EOF"  # why: OpenMetrics may leave out the line feed behind it
_SKIP = -1
_CACHE_SPARE = 4096

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*+"
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_PAIR = rf"{_LABEL}[ \t]*+=[ \t]*+{_QUOTED}[ \t]*+"
_BRACES = rf"\{{[ \t]*+(?:{_PAIR}(?:,[ \t]*+|(?=\}})))*+\}}"
_LINE = re.compile(  # why possessive: a hostile line must not make it try again and again
    rf"[ \t]*+(?P<series>(?P<name>{_NAME})(?:[ \t]*+(?P<labels>{_BRACES}))?)"
    r"(?:(?<=\})[ \t]*+|[ \t]++)(?P<value>[^\s#{}]++)"
    r"(?:[ \t]++-?[0-9.eE+]++)?[ \t\r]*+(?:#.*+)?",
    re.DOTALL,
)
_PAIRS = re.compile(rf"({_LABEL})[ \t]*+=[ \t]*+({_QUOTED})")
_STARTS = re.compile(rf"[ \t]*+({_NAME})")
_TYPE = re.compile(rf"[ \t]*+#[ \t]++TYPE[ \t]++({_NAME})[ \t]++([a-z]++)[ \t\r]*+")
_ESCAPE = re.compile(r'\\([\\n"])')
_ESCAPED = {"\\": "\\", "n": "\n", '"': '"'}


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a page. `labels` are sorted and without `le`, which is a number or absent."""

    name: str
    labels: Labels
    le: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The wanted samples of one page, and what was wrong with it.

    `types` are all that the page declares, wanted or not. `suspects` are names of samples with a
    line that could not be read, or that contradict another.
    """

    types: Mapping[str, str]
    torn: bool
    bad_lines: int
    suspects: frozenset[str]
    _values: Mapping[int, float]
    _series: list[Series]
    _by_name: Mapping[str, list[int]]
    _text: str = ""

    def samples(self, name: str) -> list[tuple[Series, float]]:
        """Every sample of that name on the page."""
        values, series = self._values, self._series
        slots = self._by_name.get(name, ())
        return [(series[slot], values[slot]) for slot in slots if slot in values]

    def has(self, name: str) -> bool:
        return any(slot in self._values for slot in self._by_name.get(name, ()))

    def names(self) -> frozenset[str]:
        """The names of the wanted samples that the page has."""
        return frozenset(name for name in self._by_name if self.has(name))

    def lacks(self, before: "Page") -> bool:
        """Whether a series that counts was on that earlier page and is not on this one."""
        if before._series is not self._series:  # noqa: SLF001 - a page of the same parser
            return True
        gone = before._values.keys() - self._values.keys()  # noqa: SLF001
        return any(self.types.get(self._series[slot].name) != "gauge" for slot in gone)

    def all_names(self) -> frozenset[str]:
        """The names of all samples, wanted or not: slow, for pages that say nothing we know."""
        starts = (_STARTS.match(line) for line in self._text.split("\n"))
        return self.names() | {start[1] for start in starts if start is not None}


def page_of(
    samples: Iterable[tuple[str, Mapping[str, str], float]],
    types: Mapping[str, str] | None = None,
) -> Page:
    """A page of samples that did not come as text: name, labels (`le` among them), value."""
    values: dict[int, float] = {}
    series: list[Series] = []
    by_name: dict[str, list[int]] = {}
    suspects: set[str] = set()
    slots: dict[Series, int] = {}
    for name, labels, value in samples:
        one = _series_of(name, dict(labels))
        if one is None:
            suspects.add(name)
            continue
        slot = slots.setdefault(one, len(series))
        if slot == len(series):
            series.append(one)
            by_name.setdefault(name, []).append(slot)
        if values.setdefault(slot, value) != value:
            suspects.add(name)
    return Page(
        types=types or {},
        torn=False,
        bad_lines=len(suspects),
        suspects=frozenset(suspects),
        _values=values,
        _series=series,
        _by_name=by_name,
    )


class PageParser:
    """The parser of one target's pages; it remembers how that target writes its series."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._forget()

    def parse(self, text: str, *, where: str = "page") -> Page:
        """The page, or ScrapeError when it is no page at all."""
        if len(self._slot_of_text) > 4 * text.count("\n") + _CACHE_SPARE:
            self._forget()
        lines = text.removeprefix(_BYTE_ORDER_MARK).split("\n")
        torn = lines.pop().rstrip() not in ("", _END)
        slots: list[int] = []
        raws: list[str] = []
        odd: list[str] = []
        known = self._slot_of_text.get
        for line in lines:
            text_of_series, _, raw = line.rpartition(" ")
            slot = known(text_of_series)
            if slot is None:
                odd.append(line)
            elif slot >= 0:
                slots.append(slot)
                raws.append(raw)
        reading = _Reading()
        if not self._take_all(reading, slots, raws):
            odd = lines
        for line in odd:
            self._take(reading, line)
        if not reading.values and not any(_LINE.fullmatch(line) for line in lines):
            raise _no_page(text, where)
        return Page(
            types=reading.types,
            torn=torn,
            bad_lines=reading.bad_lines,
            suspects=frozenset(reading.suspects),
            _values=reading.values,
            _series=self._series,
            _by_name=self._by_name,
            _text=text,
        )

    def _forget(self) -> None:
        """New objects, so that pages already handed out keep theirs."""
        self._slot_of_text: dict[str, int] = {}
        self._slot_of: dict[Series, int] = {}
        self._series: list[Series] = []
        self._by_name: dict[str, list[int]] = {}

    def _take_all(self, reading: "_Reading", slots: list[int], raws: list[str]) -> bool:
        """The quick way: false when a value is no number or a series stands twice."""
        if any("_" in raw for raw in raws):
            return False
        try:
            reading.values.update(zip(slots, map(float, raws), strict=True))
        except ValueError:
            reading.values.clear()
        if len(reading.values) != len(slots):
            reading.values.clear()
            return False
        return True

    def _take(self, reading: "_Reading", line: str) -> None:
        """One line with care; what it teaches is remembered."""
        if not line or line.isspace():
            return
        if line.lstrip(" \t").startswith("#"):
            self._take_comment(reading, line)
            return
        match = _LINE.fullmatch(line)
        value = _number(match["value"]) if match else None
        if match is None or value is None:
            self._refuse(reading, line)
            return
        name, text_of_series = match["name"], match["series"].strip(" \t")
        slot = self._slot(name, match["labels"] or "") if self._wanted(name) else _SKIP
        if slot is None:
            self._refuse(reading, line)
            return
        if line.rpartition(" ")[0] == text_of_series:
            self._slot_of_text[text_of_series] = slot
        if slot == _SKIP:
            return
        first = reading.values.setdefault(slot, value)
        if first != value and not (math.isnan(first) and math.isnan(value)):
            reading.suspects.add(name)

    def _take_comment(self, reading: "_Reading", line: str) -> None:
        declared = _TYPE.fullmatch(line)
        if declared is not None:
            reading.types[declared[1]] = declared[2]
        elif line.startswith("# HELP "):
            self._slot_of_text[line.rpartition(" ")[0]] = _SKIP

    def _refuse(self, reading: "_Reading", line: str) -> None:
        """Count the line, and doubt the family that it seems to belong to."""
        reading.bad_lines += 1
        name = _STARTS.match(line)
        if name is not None and self._wanted(name[1]):
            reading.suspects.add(name[1])

    def _slot(self, name: str, braces: str) -> int | None:
        """The place of a series, however it is spelled; None if its labels make no sense."""
        pairs = [(key, _unescaped(value[1:-1])) for key, value in _PAIRS.findall(braces)]
        labels = dict(pairs)
        series = _series_of(name, labels) if len(labels) == len(pairs) else None
        if series is None:
            return None
        slot = self._slot_of.setdefault(series, len(self._series))
        if slot == len(self._series):
            self._series.append(series)
            self._by_name.setdefault(name, []).append(slot)
        return slot


class _Reading:
    """What has been found on one page so far."""

    def __init__(self) -> None:
        self.values: dict[int, float] = {}
        self.types: dict[str, str] = {}
        self.suspects: set[str] = set()
        self.bad_lines = 0


def _series_of(name: str, labels: dict[str, str]) -> Series | None:
    """The series, its `le` as a number; None where that is none."""
    le = labels.pop("le", None)
    edge = _number(le) if le is not None else None
    if le is not None and (edge is None or math.isnan(edge)):
        return None
    return Series(name, tuple(sorted(labels.items())), edge)


def _number(raw: str) -> float | None:
    """A value as Prometheus writes it; Python's digit groups are none."""
    try:
        return None if "_" in raw else float(raw)
    except ValueError:
        return None


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], value)


def _no_page(text: str, where: str) -> ScrapeError:
    """Why a body without a single sample is no page."""
    start = text.removeprefix(_BYTE_ORDER_MARK).lstrip()[:64]
    remedy = "Is this the address of the engine's metrics page?"
    if not start:
        reason, problem = "empty", "the body is empty"
        remedy = "Its metrics may be switched off, or none of its processes could write them."
    elif start[0] == '"':
        reason, problem = "json_string", "the body looks like a JSON string, not like a page"
        remedy = "llama.cpp did this between b7010 and its PR 17386: update it."
    elif start[0] in "[{":
        reason, problem = "json", "the body looks like JSON, not like a page"
        remedy = "The page of `trtllm-serve` is `/prometheus/metrics`."
    elif start[0] == "<":
        reason, problem = "html", "the body looks like HTML, not like a page"
    elif all(not line or line.startswith("#") for line in text.split("\n")):
        reason, problem = "no_samples", "the page has comments but no samples"
    else:
        reason, problem = "not_prometheus", f"no line reads like a sample; it begins {start!r}"
    return ScrapeError(reason, problem, where=where, remedy=remedy)
