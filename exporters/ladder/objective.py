"""What a request must keep to be good: `ttft<=1s`, `itl_p99<=100ms`, and all of them at once."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from domain.errors import ConfigError
from exporters.ladder.rank import ranked
from exporters.ladder.sample import Sample

__all__ = ["PRESETS", "Condition", "Goal", "is_good", "parse_goal"]

PRESETS = {
    "voice": ("ttft<=300ms", "itl_p99<=100ms"),
    "chat": ("ttft<=1s", "itl_p99<=150ms"),
    "code": ("ttft<=500ms", "itl_p99<=80ms"),
    "writing": ("ttft<=2s", "itl_p99<=200ms"),
}
_METRICS = ("ttft", "tpot", "e2e", "itl_max", "itl_p50", "itl_p95", "itl_p99")
_UNITS_S = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
}
_PHRASE = re.compile(
    r"(?:p(?P<target>\d{1,2}(?:\.\d{1,6})?)\s+)?(?P<metric>[a-z][a-z0-9_]*)\s*<=\s*"
    r"(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[a-z]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One figure of one request, at most this long."""

    metric: str
    at_most_s: Fraction

    @property
    def text(self) -> str:
        limit_s = float(self.at_most_s)
        shown = f"{limit_s:g} s" if limit_s >= 1 else f"{limit_s * 1000:g} ms"
        return f"{self.metric.replace('_', ' ').upper()} ≤ {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A good request keeps all conditions; a good step has at least `target` good requests."""

    conditions: tuple[Condition, ...]
    target: Fraction

    @property
    def text(self) -> str:
        """The goal as one phrase."""
        return " and ".join(condition.text for condition in self.conditions)

    def is_met(self, good: int, total: int) -> bool:
        """Exact, and never by a step without requests."""
        return total > 0 and good >= self.target * total


def parse_goal(phrases: Sequence[str], *, target: str | None = None) -> Goal | None:
    """The goal of several phrases or presets; None without any.

    `p99 ttft <= 1s` names the share of good requests too; else it is `target`, else 99 %.
    """
    parts = [part for phrase in phrases for part in PRESETS.get(phrase.strip(), (phrase,))]
    if not parts:
        return None
    read = [_parse(part) for part in parts]
    named = [share for _, share in read if share is not None]
    share = _share(target) if target is not None else max(named, default=Fraction(99, 100))
    return Goal(conditions=tuple(condition for condition, _ in read), target=share)


def is_good(sample: Sample, conditions: Iterable[Condition], *, from_intended: bool) -> bool:
    """Did a whole answer keep them all? What a one-token answer has not, it cannot break."""
    if not sample.ok or not len(sample.chunk_at_s):
        return False
    before_s = sample.waited_s if from_intended else 0.0
    return all(_keeps(sample, condition, before_s) for condition in conditions)


def _keeps(sample: Sample, condition: Condition, before_s: float) -> bool:
    value_s = _value_s(sample, condition.metric)
    if value_s is None:
        return True
    if condition.metric in ("ttft", "e2e"):
        value_s += before_s
    return value_s <= condition.at_most_s


def _value_s(sample: Sample, metric: str) -> float | None:
    match metric:
        case "ttft":
            return sample.ttft_s
        case "e2e":
            return sample.e2e_s
        case "tpot":
            return sample.tpot_s
        case "itl_max":
            return float(np.max(sample.gaps_s)) if len(sample.gaps_s) else None
        case _:
            share = Fraction(int(metric.removeprefix("itl_p")), 100)
            found = ranked(sample.gaps_s, share)
            return found.value_s if found is not None else None


def _parse(text: str) -> tuple[Condition, Fraction | None]:
    found = _PHRASE.fullmatch(" ".join(text.split()))
    if found is None or found["unit"] not in _UNITS_S or not Fraction(found["number"]):
        raise _refused(text, "is no objective", "Write ttft<=1s, itl_p99<=100ms or p99 ttft<=1s")
    metric = found["metric"]
    if metric == "itl":
        raise _refused(
            text,
            "does not say which of a request's many gaps",
            "Write itl_p99<=100ms (the request's own P99) or itl_max<=1s",
        )
    if metric not in _METRICS:
        raise _refused(text, f"asks for {metric!r}", f"Use one of {', '.join(_METRICS)}")
    limit_s = Fraction(found["number"]) * _UNITS_S[found["unit"]]
    share = _share(found["target"]) if found["target"] else None
    return Condition(metric=metric, at_most_s=limit_s), share


def _share(text: str) -> Fraction:
    number = text.strip().removeprefix("p").removesuffix("%").strip()
    if not re.fullmatch(r"\d{1,2}(\.\d{1,6})?", number) or not Fraction(number):
        raise _refused(text, "is no share of requests", "Write 99 or 99.5%, below 100 %")
    return Fraction(number) / 100


def _refused(text: str, problem: str, remedy: str) -> ConfigError:
    presets = ", ".join(PRESETS)
    return ConfigError(
        problem, where=f"objective {text[:80]!r}", remedy=f"{remedy}; or a preset: {presets}."
    )
