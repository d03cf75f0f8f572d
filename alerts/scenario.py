"""Scenario files: minutes in, verdicts out, readable by whoever is paged.

objective: {phrase: "p99 ttft <= 1.5s over 30d", min_events: 0}
start: 2026-03-01T08:00:00Z
minutes:
  - {n: 60, good: 600, total: 600}
  - {n: 10, unobserved: true}
expect:
  - {at: 68, page: true, tier: quick}

A first run of an hour or more that keeps the promise is how it was before: windows that look back
beyond `start` find its minutes there too, unless the file says `before: nothing`. A first run that
breaks the promise is the incident itself; nothing stands before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from alerts.course import history_minutes
from alerts.definition import Definition, define
from alerts.phrase import suggestion
from alerts.reading import composed, text_of
from domain.errors import ConfigError
from domain.slice import MINUTE_S, Slice, as_whole

__all__ = ["Expectation", "Scenario", "load_scenario"]

_NEEDED = ("objective", "start", "minutes", "expect")
_KEYS = (*_NEEDED, "before")
_RUN_KEYS = ("n", "good", "total", "good_low", "good_high", "unobserved")
_EXPECT_KEYS = ("at", "page", "ticket", "tier", "stale", "no_data")
_TIERS = ("quick", "slow")
_BEFORE = ("steady", "nothing")
_STEADY_MINUTES = 60
_MOST_MINUTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be true after minute `at` has been evaluated; None: not asked."""

    at: int
    page: bool | None = None
    ticket: bool | None = None
    tier: str | None = None
    stale: bool | None = None
    no_data: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One objective, its minutes, and what is expected of them. `past`: the minutes before."""

    name: str
    definition: Definition
    start_s: int
    slices: Sequence[Slice]
    expectations: Sequence[Expectation]
    past: Sequence[Slice] = ()


def load_scenario(path: Path) -> Scenario:
    """A scenario file; what is wrong in it is one error with the way out."""
    text = text_of(path)
    composed(text, str(path))  # why: aliases and nesting without end are refused there
    try:
        said = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"cannot be read: {' '.join(str(error).split())}",
            where=str(path),
            remedy="Check the YAML.",
        ) from error
    _known(said, _KEYS, at=str(path))
    missing = [key for key in _NEEDED if key not in said]
    if missing:
        raise ConfigError(f"{missing[0]!r} is missing", where=str(path), remedy="Add it.")
    start_s = _start_s(said["start"], at=f"{path} start")
    slices = _slices(said["minutes"], start_s, at=f"{path} minutes")
    objective = said["objective"]
    text = objective if isinstance(objective, str) else yaml.safe_dump(objective, sort_keys=False)
    definition = define(text, at=f"{path} objective")
    return Scenario(
        name=path.stem,
        definition=definition,
        start_s=start_s,
        slices=slices,
        expectations=_expectations(said["expect"], len(slices), at=f"{path} expect"),
        past=_past(said, slices[0], definition, at=f"{path} before"),
    )


def _past(said: Mapping[str, Any], first: Slice, definition: Definition, *, at: str) -> list[Slice]:
    """As far as windows look back: the first run, if that is long and good enough to be steady."""
    if said.get("before", "steady") not in _BEFORE:
        raise ConfigError("is not known", where=at, remedy=f"Write {' or '.join(_BEFORE)}.")
    long = said["minutes"][0].get("n", 1) >= _STEADY_MINUTES
    slices = definition.objective.slices
    counted = first if slices is None else as_whole(first, slices)
    kept = counted.total - counted.good_low <= definition.objective.budget * counted.total
    if said.get("before") == "nothing" or not (long and kept and first.observed):
        return []
    begin_s = first.minute_at_s - history_minutes(definition) * MINUTE_S
    return [
        replace(first, minute_at_s=at_s) for at_s in range(begin_s, first.minute_at_s, MINUTE_S)
    ]


def _start_s(said: object, *, at: str) -> int:
    if isinstance(said, str):
        try:
            said = datetime.fromisoformat(said)
        except ValueError:
            said = None
    if not isinstance(said, datetime):
        raise ConfigError("is no instant", where=at, remedy="Write 2026-03-01T08:00:00Z.")
    instant = said if said.tzinfo else said.replace(tzinfo=UTC)
    seconds = int(instant.timestamp())
    if seconds % MINUTE_S:
        raise ConfigError("is not on a minute", where=at, remedy="Write :00 for the seconds.")
    return seconds


def _slices(runs: object, start_s: int, *, at: str) -> list[Slice]:
    if not isinstance(runs, list) or not runs:
        raise ConfigError(
            "holds no minutes", where=at, remedy="Write - {n: 60, good: 6, total: 6}."
        )
    slices: list[Slice] = []
    for index, run in enumerate(runs):
        place = f"{at}[{index}]"
        _known(run, _RUN_KEYS, at=place)
        times = _whole(run.get("n", 1), at=f"{place}.n")
        if len(slices) + times > _MOST_MINUTES:
            raise ConfigError(
                f"{len(slices) + times} minutes are too many",
                where=f"{place}.n",
                remedy=f"Keep it to {_MOST_MINUTES} in all.",
            )
        for _ in range(times):
            slices.append(_slice(run, start_s + len(slices) * MINUTE_S, at=place))
    if not slices:
        raise ConfigError("holds no minutes", where=at, remedy="Write n: 1 or more.")
    return slices


def _slice(run: Mapping[str, Any], minute_at_s: int, *, at: str) -> Slice:
    if run.get("unobserved"):
        return Slice(minute_at_s=minute_at_s, observed=False)
    total = _whole(run.get("total"), at=f"{at}.total")
    low = _whole(run.get("good_low", run.get("good")), at=f"{at}.good")
    high = _whole(run.get("good_high", run.get("good")), at=f"{at}.good")
    if not low <= high <= total:
        raise ConfigError(
            f"{low} to {high} good of {total} cannot be",
            where=at,
            remedy="Keep good between 0 and total.",
        )
    return Slice(minute_at_s=minute_at_s, good_low=low, good_high=high, total=total)


def _expectations(said: object, minutes: int, *, at: str) -> list[Expectation]:
    if not isinstance(said, list) or not said:
        raise ConfigError("expects nothing", where=at, remedy="Write - {at: 68, page: true}.")
    found = []
    for index, each in enumerate(said):
        place = f"{at}[{index}]"
        _known(each, _EXPECT_KEYS, at=place)
        minute = _whole(each.get("at"), at=f"{place}.at")
        if minute >= minutes:
            raise ConfigError(
                f"minute {minute} is not among the {minutes} minutes",
                where=place,
                remedy="Minute 0 is the first; add minutes or ask earlier.",
            )
        flags = {key: value for key, value in each.items() if key not in ("at", "tier")}
        wrong = [key for key, value in flags.items() if not isinstance(value, bool)]
        tier = each.get("tier")
        if wrong or (tier is not None and tier not in _TIERS) or len(each) < 2:
            raise ConfigError(
                "is no expectation",
                where=place,
                remedy="Write true or false, and tier: quick or slow.",
            )
        found.append(Expectation(at=minute, tier=tier, **flags))
    return found


def _whole(value: object, *, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{value!r} is no count", where=at, remedy="Write a number, 0 or more.")
    return value


def _known(said: object, keys: Sequence[str], *, at: str) -> None:
    if not isinstance(said, dict):
        raise ConfigError("is no mapping", where=at, remedy=f"Keys are {', '.join(keys)}.")
    for key in said:
        if key not in keys:
            raise ConfigError(
                f"there is no key {key!r}", where=at, remedy=suggestion(str(key), keys)
            )
