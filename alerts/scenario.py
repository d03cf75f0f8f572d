"""Scenario files: minutes in, verdicts out, readable by whoever is paged.

objective: {phrase: "p99 ttft <= 1.5s over 30d", min_events: 0}
start: 2026-03-01T08:00:00Z
minutes:
  - {n: 60, good: 600, total: 600}
  - {n: 10, unobserved: true}
expect:
  - {at: 68, page: true, tier: quick}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from alerts.definition import Definition, define
from alerts.phrase import suggestion
from domain.errors import ConfigError
from domain.slice import MINUTE_S, Slice

__all__ = ["Expectation", "Scenario", "load_scenario"]

_KEYS = ("objective", "start", "minutes", "expect")
_RUN_KEYS = ("n", "good", "total", "good_low", "good_high", "unobserved")
_EXPECT_KEYS = ("at", "page", "ticket", "tier", "stale", "no_data")
_TIERS = ("quick", "slow")


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
    """One objective, its minutes, and what is expected of them."""

    name: str
    definition: Definition
    start_s: int
    slices: Sequence[Slice]
    expectations: Sequence[Expectation]


def load_scenario(path: Path) -> Scenario:
    """A scenario file; what is wrong in it is one error with the way out."""
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"cannot be read: {' '.join(str(error).split())}",
            where=str(path),
            remedy="Check the path and the YAML.",
        ) from error
    _known(said, _KEYS, at=str(path))
    missing = [key for key in _KEYS if key not in said]
    if missing:
        raise ConfigError(f"{missing[0]!r} is missing", where=str(path), remedy="Add it.")
    start_s = _start_s(said["start"], at=f"{path} start")
    slices = _slices(said["minutes"], start_s, at=f"{path} minutes")
    objective = said["objective"]
    text = objective if isinstance(objective, str) else yaml.safe_dump(objective, sort_keys=False)
    return Scenario(
        name=path.stem,
        definition=define(text, at=f"{path} objective"),
        start_s=start_s,
        slices=slices,
        expectations=_expectations(said["expect"], len(slices), at=f"{path} expect"),
    )


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
        for _ in range(_whole(run.get("n", 1), at=f"{place}.n")):
            slices.append(_slice(run, start_s + len(slices) * MINUTE_S, at=place))
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
