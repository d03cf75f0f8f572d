"""The plain sentence of a promise: `p99 ttft <= 1.5s over 30d where use_case=chat`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from domain.errors import ConfigError
from domain.labels import LABEL_NAMES, Labels, labels_of
from domain.metric import LATENCIES
from domain.objective import DAY_S

__all__ = [
    "Phrase",
    "duration_s",
    "metric_name",
    "parse",
    "period_s",
    "seconds",
    "suggestion",
    "target",
    "where_labels",
]

_PHRASE = re.compile(
    r"p(?P<target>\S+)\s+(?P<metric>\S+?)\s*<=\s*(?P<threshold>\d\S*(?:\s+[a-zµ]+(?<!over))?)"
    r"(?:\s+over\s+(?P<period>\d\S*(?:\s+[a-z]+(?<!where))?))?(?:\s+where\s+(?P<where>.+))?"
)
_EXAMPLE = "p99 ttft <= 1.5s over 30d where use_case=chat"
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµ]*)")
_PAIR = re.compile(r"""\s*([^\s=,]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s,"']+))\s*""")
_UNITS_S = {
    "us": Fraction(1, 1_000_000),
    "µs": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
}
_PERIODS_S = {"min": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}
_SHORTEST_S = 3600
_LONGEST_S = 90 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """The parts of the sentence as values."""

    target: Fraction
    metric: str
    threshold_s: Fraction
    period_s: int = 30 * DAY_S
    where: Labels = ()


def parse(text: str, *, at: str) -> Phrase:
    """The parts of a sentence; `at` says where it stands, for errors."""
    found = _PHRASE.fullmatch(" ".join(text.split()))
    if found is None:
        raise ConfigError(
            f"{text!r} is no promise",
            where=at,
            remedy=_near_miss(text) or f"Write it like: {_EXAMPLE}.",
        )
    return Phrase(
        target=target(f"p{found['target']}", at=at),
        metric=metric_name(found["metric"], at=at),
        threshold_s=duration_s(found["threshold"], at=at),
        period_s=period_s(found["period"], at=at) if found["period"] else 30 * DAY_S,
        where=_where(found["where"], at=at) if found["where"] else (),
    )


def target(text: str, *, at: str) -> Fraction:
    """`99.9`, `99.9%`, `p99.9` or a share such as `0.999`; exact."""
    number = text.strip().removeprefix("p").removesuffix("%").strip()
    if not re.fullmatch(r"\d{1,3}(\.\d{1,12})?", number):
        raise ConfigError(f"{text!r} is no target", where=at, remedy="Write p99, p99.9 or 99.9%.")
    value = Fraction(number)
    is_share = value < 1 and "%" not in text and not text.strip().startswith("p")
    share = value if is_share else value / 100
    if not 0 < share < 1:
        raise ConfigError(
            f"a target of {number} % leaves nothing to measure against",
            where=at,
            remedy="Use a target above 0 and below 100 %, such as p99.",
        )
    return share


def metric_name(text: str, *, at: str) -> str:
    """One of our latencies."""
    if text not in LATENCIES:
        raise ConfigError(f"{text!r} is no latency", where=at, remedy=suggestion(text, LATENCIES))
    return text


def duration_s(text: str, *, at: str) -> Fraction:
    """`1.5s`, `300ms`, `50us` or `2min`; exact."""
    number, unit = _number(text, at=at, remedy="Write 1.5s, 300ms, 50us or 2min.")
    if unit not in _UNITS_S:
        unit_said = f"the unit {unit!r}" if unit else "no unit"
        raise ConfigError(
            f"{text!r} has {unit_said}", where=at, remedy=f"Use one of {', '.join(_UNITS_S)}."
        )
    if not number:
        raise ConfigError(
            "nothing is faster than 0 s", where=at, remedy="Use a threshold above 0, such as 1.5s."
        )
    return number * _UNITS_S[unit]


def seconds(text: str, *, at: str) -> int:
    """A waiting time such as `15min`, `0s` or `1h`, in whole seconds."""
    number, unit = _number(text, at=at, remedy="Write 0s, 15min or 1h.")
    units = {"s": 1, **_PERIODS_S}
    if unit not in units or (number * units[unit]).denominator != 1:
        raise ConfigError(f"{text!r} is no waiting time", where=at, remedy="Write 0s, 15min or 1h.")
    return int(number * units[unit])


def period_s(text: str, *, at: str) -> int:
    """`30d`, `4w`, `12h`; between one hour and 90 days, in whole hours."""
    number, unit = _number(text, at=at, remedy="Write 30d, 4w or 12h.")
    if unit not in _PERIODS_S:
        raise ConfigError(
            f"the period {text!r} has no unit we know",
            where=at,
            remedy=f"Use one of {', '.join(_PERIODS_S)}, as in 30d.",
        )
    period = number * _PERIODS_S[unit]
    if not _SHORTEST_S <= period <= _LONGEST_S or period % _SHORTEST_S:
        raise ConfigError(
            f"a period of {text} cannot be watched",
            where=at,
            remedy="Use whole hours from 1h (the shortest window that works) to 90d.",
        )
    return int(period)


def where_labels(pairs: Iterable[tuple[str, str]], *, at: str) -> Labels:
    """The selector; every name one of our labels, none twice."""
    kept = tuple(pairs)
    for index, (name, _) in enumerate(kept):
        if name not in LABEL_NAMES:
            raise ConfigError(
                f"{name!r} is no label", where=at, remedy=suggestion(name, LABEL_NAMES)
            )
        if name in (other for other, _ in kept[:index]):
            raise ConfigError(
                f"{name!r} is asked for twice", where=at, remedy="Keep one of the two."
            )
    return labels_of(kept)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The way out of a misspelt name."""
    names = tuple(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Use one of {', '.join(names)}."


def _number(text: str, *, at: str, remedy: str) -> tuple[Fraction, str]:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no number with a unit", where=at, remedy=remedy)
    return Fraction(found[1]), found[2]


def _where(text: str, *, at: str) -> Labels:
    pairs, position = [], 0
    while position < len(text):
        found = _PAIR.match(text, position)
        if found is None:
            raise ConfigError(
                f"{text!r} selects nothing we understand",
                where=at,
                remedy="Write name=value, several with a comma between.",
            )
        pairs.append((found[1], next(v for v in found.groups()[1:] if v is not None)))
        position = found.end()
        separator = re.compile(r",|and\s").match(text, position)
        position = separator.end() if separator else position
    return where_labels(pairs, at=at)


def _near_miss(text: str) -> str:
    if "<=" not in text and re.search(r"<|under|below", text):
        return f"A promise says <=, as in: {_EXAMPLE}."
    if re.search(r">", text):
        return f"A latency promise says <=, as in: {_EXAMPLE}."
    if not text.lstrip().startswith("p"):
        return f"Begin with the share of requests, as in: {_EXAMPLE}."
    return ""
