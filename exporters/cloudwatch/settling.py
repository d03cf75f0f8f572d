"""How long points keep changing, learnt per namespace from the changes that were seen."""

from __future__ import annotations

import math
from collections import defaultdict, deque

__all__ = ["SettleLag"]

_REMEMBERED = 2000
_ENOUGH = 100
_LONGEST_S = 3600.0


class SettleLag:
    """The configured lag, or the age at which one point in a hundred still changed, if longer."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._ages: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def lag_s(self, namespace: str) -> float:
        """A period is settled this long after its end."""
        ages = self._ages.get(namespace)
        if ages is None or len(ages) < _ENOUGH:
            return self._least_s
        rank = math.ceil(0.99 * len(ages)) - 1
        return min(max(self._least_s, sorted(ages)[rank]), _LONGEST_S)

    def learn(self, namespace: str, last_change_age_s: float) -> None:
        """A point is not read again; it last changed at this age (0: never after it was first seen)."""
        self._ages[namespace].append(last_change_age_s)
