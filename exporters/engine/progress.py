"""Whether an engine moves: while requests are there, its steps and tokens must not stand still.

Only families that move with every step or token show that an engine stands still. Where an engine
counts its tokens when a request finishes (SGLang, TensorRT-LLM, llama.cpp), those are signs of life
and no more: by them alone nobody is judged, for a long answer is no stall. Gateways are not judged
either: to them a long prefill looks like one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from exporters.engine.family import matching
from exporters.engine.table import Engine, Family, names
from exporters.engine.text import Page

__all__ = ["Progress", "pulse"]

_SECOND_NS = 1_000_000_000

Marks = dict[str, float]


@dataclass(slots=True)
class Progress:
    """Since when nothing has moved. Pages that were not read leave it as it was."""

    still_since_ns: int | None = None
    _marks: Marks = field(default_factory=dict)
    _busy: bool = False

    def standstill_s(self, marks: Marks, requests: float, at_ns: int) -> float:
        """How long requests have been there without any of these marks having moved (s)."""
        moved = any(self._marks.get(name, value) != value for name, value in marks.items())
        arrived = not self._busy  # nobody knows when, so count from here
        if self.still_since_ns is None or moved or arrived or not requests:
            self.still_since_ns = at_ns
        self._marks.update(marks)
        self._busy = requests > 0
        return (at_ns - self.still_since_ns) / _SECOND_NS


def pulse(page: Page, engines: Iterable[Engine]) -> Marks:
    """All that moves while these engines work; empty where the page has nothing live."""
    marks: Marks = {}
    for engine in engines:
        live = _marks(page, engine, engine.live)
        if live:
            marks |= live | _marks(page, engine, engine.signs)
    return marks


def _marks(page: Page, engine: Engine, families: Iterable[Family]) -> Marks:
    found: Marks = {}
    for family in families:
        for name in names(engine, family.name):
            series = {one.labels: value for one, value in page.samples(name)}
            values = matching(series, family).values()
            if values:
                found[name] = math.fsum(value for value in values if math.isfinite(value))
    return found
