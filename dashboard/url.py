"""A page's state, as it stands in the address bar: equal views have equal links."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from collector.query import Window
from dashboard.sieve import Sieve
from domain.labels import LABEL_NAMES, Labels, labels_of

__all__ = [
    "ALERT",
    "ALERTS",
    "ALONE",
    "BALANCE",
    "ENDPOINTS",
    "FLEET",
    "GPUS",
    "GROUPINGS",
    "OBJECTIVE",
    "OF_ONE",
    "PROBES",
    "PROMPT",
    "REQUEST",
    "REQUESTS",
    "SERVICE",
    "SILENCES",
    "STATUS",
    "View",
]

FLEET = ""
SERVICE = "service"
ENDPOINTS = "endpoints"
GPUS = "gpus"
ALERTS = "alerts"
ALERT = "alert"
SILENCES = "silences"
OBJECTIVE = "objective"
REQUESTS = "requests"
REQUEST = "request"
PROBES = "probes"
BALANCE = "balance"
STATUS = "status"
ALONE = (ALERTS, SILENCES, REQUESTS, GPUS, ENDPOINTS, PROBES, BALANCE, STATUS)
"""Pages that are of no service."""
OF_ONE = {ALERTS: ALERT, "objectives": OBJECTIVE, REQUESTS: REQUEST}
"""Paths under which each thing has a page of its own, and what that page is called."""
GROUPINGS = ("model", "replica", "role", "region")
"""The labels that the service page can be split by."""
PROMPT = "prompt"
"""What is compared with last week can be split by the length of prompts, too."""

HOUR_S = 3600
DAY_S = 86_400
MIN_SPAN_S = 60
MAX_SPAN_S = 400 * DAY_S
_LATEST_S = 253_402_300_799  # the last second that has four digits of year
_UNITS_S = {"s": 1, "m": 60, "h": HOUR_S, "d": DAY_S}
_RELATIVE = re.compile(r"now-(\d{1,9})([smhd])")
_MOST_MATCHERS = 20
_BEGIN_S = 300  # so that what is over serves many refreshes
_EPOCH = re.compile(r"\d{1,12}")
_EPOCH_MS = re.compile(r"\d{13}")
_VARIABLE, _ALL = "var-", ("$__all", "All", ".*")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the reader is looking at: the last `span_s`, or `fixed`, which does not move.

    `one`: the alert or objective that the page is of, with `alone` the page's name. `kind`: only
    alerts of this kind. `matchers`: of a silence that is about to be asked for. `sieve`: which
    requests of the explorer. `a_week_ago`: charts show that too.
    """

    service: str = ""
    alone: str = ""
    one: str = ""
    span_s: int = HOUR_S
    fixed: Window | None = None
    by: str = ""
    where: Labels = ()
    find: str = ""
    kind: str = ""
    matchers: tuple[str, ...] = ()
    sieve: Sieve = Sieve()  # noqa: RUF009 - frozen
    a_week_ago: bool = False

    def __post_init__(self) -> None:
        if not MIN_SPAN_S <= self.span_s <= MAX_SPAN_S:
            raise ValueError(f"a page shows a minute to {MAX_SPAN_S // DAY_S} days: {self}")
        names = OF_ONE.values() if self.one else ALONE
        if self.alone and (self.service or self.alone not in names):
            raise ValueError(f"a page of no service is one of {', '.join(names)}: {self}")
        if self.one and not self.alone:
            raise ValueError(f"a page of one thing says of which kind: {self}")
        if self.by and self.by not in (*GROUPINGS, PROMPT):
            raise ValueError(f"a page is split by one of {', '.join(GROUPINGS)}: {self}")

    @property
    def page(self) -> str:
        """The first segment of the path."""
        return SERVICE if self.service else self.alone

    @property
    def label(self) -> str:
        """The label by which it is split, if by a label."""
        return self.by if self.by in GROUPINGS else ""

    @property
    def live(self) -> bool:
        """Whether the window moves with the clock."""
        return self.fixed is None

    def window(self, now_s: int) -> Window:
        """The seconds that the page shows at an instant.

        A live hour of requests, and more, begins on five minutes.
        """
        since_s = now_s - self.span_s
        if not self.alone and self.span_s >= HOUR_S:
            since_s -= since_s % _BEGIN_S
        return self.fixed or Window(since_s=since_s, until_s=now_s)

    def last(self, span_s: int) -> Self:
        """The same page over the last so many seconds, moving."""
        return replace(self, span_s=span_s, fixed=None)

    def between(self, since_s: int, until_s: int) -> Self:
        """The same page over a window that stands still, a minute long at least."""
        return replace(
            self, fixed=Window(since_s=since_s, until_s=max(until_s, since_s + MIN_SPAN_S))
        )

    def only(self, name: str, value: str) -> Self:
        """The same page for one value of a label; the empty value lifts the filter."""
        return replace(self, where=labels_of(dict(self.where) | {name: value}))

    @classmethod
    def from_link(cls, path: str, query: str) -> Self:
        """Read an address, ignoring what we do not know, so that old links open."""
        pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
        known = dict(pairs)
        kind, _, name = path.strip("/").partition("/")
        span_s, fixed = _read_window(known.get("from", ""), known.get("to", ""))
        return cls(
            service=unquote(name) if kind == SERVICE else "",
            alone=OF_ONE.get(kind, "") if name else kind if kind in ALONE else "",
            one=unquote(name) if kind in OF_ONE else "",
            span_s=span_s,
            fixed=fixed,
            by=known.get("by", "") if known.get("by") in (*GROUPINGS, PROMPT) else "",
            where=_read_where([*_grafanas(pairs, kind), *_asked(pairs)]),
            find=known.get("find", ""),
            kind=known.get("kind", ""),
            matchers=tuple(value for key, value in pairs if key == "match")[:_MOST_MATCHERS],
            sieve=Sieve.from_query(known),
            a_week_ago=known.get("compare") == "week",
        )

    def path(self) -> str:
        """Where the page lies; a service may be called anything."""
        if self.one:
            above = next(path for path, page in OF_ONE.items() if page == self.alone)
            return f"/{above}/{quote(self.one, safe='')}"
        return f"/{SERVICE}/{quote(self.service, safe='')}" if self.service else f"/{self.alone}"

    def query(self) -> str:
        """Only what differs from the default, so links stay short."""
        pairs = _write_window(self)
        pairs += [("by", self.by)] if self.by else []
        pairs += [("where", f"{name}={value}") for name, value in self.where]
        pairs += [("find", self.find)] if self.find else []
        pairs += [("kind", self.kind)] if self.kind else []
        pairs += [("match", each) for each in self.matchers]
        pairs += self.sieve.query()
        pairs += [("compare", "week")] if self.a_week_ago else []
        return urlencode(pairs, safe=":")

    def link(self) -> str:
        """The address, ready to be sent to a colleague."""
        query = self.query()
        return f"{self.path()}?{query}" if query else self.path()


def _asked(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return (value.partition("=")[::2] for key, value in pairs if key == "where")


def _grafanas(pairs: Iterable[tuple[str, str]], kind: str) -> Iterable[tuple[str, str]]:
    """The variables of a dashboard whose link led here: those that stand for one value."""
    told_by_path = "service" if kind == SERVICE else ""
    chosen: dict[str, list[str]] = {}
    for key, value in pairs:
        if key.startswith(_VARIABLE):
            chosen.setdefault(key.removeprefix(_VARIABLE), []).append(value)
    return [
        (name, values[0])
        for name, values in chosen.items()
        if len(values) == 1 and values[0] not in _ALL and name != told_by_path
    ]


def _read_where(pairs: Iterable[tuple[str, str]]) -> Labels:
    return labels_of({name: value for name, value in pairs if name in LABEL_NAMES})


def _read_window(since: str, until: str) -> tuple[int, Window | None]:
    """A span or a fixed window; the default where they make no sense together."""
    relative = _RELATIVE.fullmatch(since)
    if relative and until in ("", "now"):
        span_s = int(relative[1]) * _UNITS_S[relative[2]]
        return (span_s, None) if MIN_SPAN_S <= span_s <= MAX_SPAN_S else (HOUR_S, None)
    begin_s, end_s = _instant_s(since), _instant_s(until)
    if begin_s is None or end_s is None or not MIN_SPAN_S <= end_s - begin_s <= MAX_SPAN_S:
        return HOUR_S, None
    return HOUR_S, Window(since_s=begin_s, until_s=end_s)


def _instant_s(text: str) -> int | None:
    """RFC 3339, or seconds since 1970, or milliseconds as Grafana's links have them."""
    if _EPOCH_MS.fullmatch(text):
        text = text[:-3]
    if _EPOCH.fullmatch(text):
        return int(text) if int(text) <= _LATEST_S else None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _write_window(view: View) -> list[tuple[str, str]]:
    if view.fixed is not None:
        return [("from", _rfc3339(view.fixed.since_s)), ("to", _rfc3339(view.fixed.until_s))]
    if view.span_s == HOUR_S:
        return []
    unit = next(unit for unit in "dhms" if view.span_s % _UNITS_S[unit] == 0)
    return [("from", f"now-{view.span_s // _UNITS_S[unit]}{unit}")]


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
