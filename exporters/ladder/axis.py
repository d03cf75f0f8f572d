"""An axis of a chart: where values lie on it, and which of them are named."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Axis", "axis_of", "log_axis_through"]

_LOG_FROM = 30.0
_NOTHING = 1e-9
_MOST_DECADES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from `low` to `high` on pixels from `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Its pixel; what lies outside is drawn at the edge."""
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def axis_of(values: Iterable[float], begin: float, end: float) -> Axis:
    """From zero, or logarithmic where the values span more than a factor of 30."""
    known = sorted(value for value in values if math.isfinite(value) and value >= 0)
    positive = [value for value in known if value > _NOTHING]
    if not positive:
        return Axis(low=0, high=1, begin=begin, end=end, is_log=False, ticks=(0, 1))
    if known[0] > _NOTHING and positive[-1] > _LOG_FROM * positive[0]:
        low, high = _decade_below(positive[0]), positive[-1] * 1.15
        ticks = tuple(tick for tick in _round_numbers(low, high) if low <= tick <= high)
        return Axis(low=low, high=high, begin=begin, end=end, is_log=True, ticks=ticks)
    high = positive[-1] * 1.08
    step = _round_step(high / 4)
    ticks = tuple(step * n for n in range(int(high / step) + 1))
    return Axis(low=0, high=high, begin=begin, end=end, is_log=False, ticks=ticks)


def log_axis_through(values: Sequence[float], begin: float, end: float) -> Axis:
    """Logarithmic, with each of these values named: concurrency, rates."""
    distinct = sorted(set(values))
    low, high = distinct[0], distinct[-1]
    if low == high:
        low, high = low / 2, high * 2
    margin = (high / low) ** 0.03
    return Axis(
        low=low / margin,
        high=high * margin,
        begin=begin,
        end=end,
        is_log=True,
        ticks=tuple(distinct),
    )


def _decade_below(value: float) -> float:
    step = 10 ** math.floor(math.log10(value))
    return float(max(each * step for each in (1, 2, 5) if each * step <= value * (1 + 1e-9)))


def _round_step(least: float) -> float:
    scale = 10 ** math.floor(math.log10(least))
    return float(next(each * scale for each in (1, 2, 5, 10) if each * scale >= least * (1 - 1e-9)))


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 10, 100 …; with 2 and 5 between them where there is room."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high <= 200 * low else (1,)
    shown = decades[:: math.ceil(len(decades) / _MOST_DECADES)]
    return [float(factor) * 10.0**decade for decade in shown for factor in factors]
