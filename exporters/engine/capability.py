"""What a target can tell and what it cannot: stages that are not on its page, gauges that lie."""

from collections.abc import Iterable
from dataclasses import dataclass

from exporters.engine.table import Engine, Row, Shape, spellings
from exporters.engine.text import Page

__all__ = ["Cache", "is_there", "missing"]

_USERS = ("ttft", "itl", "tpot", "e2e")
_STAGES = {
    "prefill": ("queue", "prefill", "kv_transfer", "kv_cache_usage"),
    "decode": ("itl", "tpot", "queue", "decode", "kv_transfer", "kv_cache_usage"),
}
_WHOLE = (*_USERS, "queue", "prefill", "decode", "kv_cache_usage")
_ZERO_PAGES = 5


def missing(page: Page, engines: Iterable[Engine], role: str) -> tuple[str, ...]:
    """The stages that a target of this role should have and whose families the page has not."""
    known = list(engines)
    told = {
        row.metric
        for engine in known
        for row in engine.rows
        if role in row.roles and _declares(page, engine, row)
    }
    gateway = all(engine.source == "frontend" for engine in known)
    stages = _USERS if gateway else _STAGES.get(role, _WHOLE)
    return tuple(stage for stage in stages if stage not in told)


def is_there(page: Page, name: str, shape: Shape) -> bool:
    """Whether the page has samples of a family, under this name."""
    if shape in (Shape.LATENCY, Shape.EVENTS, Shape.TOTAL, Shape.ESTIMATE):
        return any(page.has(name + part) for part in ("_bucket", "_count", "_sum"))
    return page.has(name)


def _declares(page: Page, engine: Engine, row: Row) -> bool:
    return any(
        spelling.name in page.types or is_there(page, spelling.name, row.shape)
        for spelling in spellings(engine, row)
    )


@dataclass(slots=True)
class Cache:
    """Whether a target's gauge of its KV cache can be believed.

    Some publish a gauge that nobody ever sets. One that never was above 0 while requests ran, or
    that is a share of nothing, is not reported.
    """

    zeros: int = 0
    moved: bool = False

    def doubt(self, usage: float | None, capacity: float | None, *, busy: bool) -> str:
        """Why the gauge is not believed; empty where it is, or where there is none."""
        if usage is None:
            return ""
        if usage:
            self.moved = True
        elif busy:
            self.zeros += 1
        if self.moved:
            return ""
        if capacity == 0:
            return (
                "kv_cache_usage is 0 of a cache of 0 blocks: nobody sets it, so it is not reported"
            )
        if self.zeros >= _ZERO_PAGES:
            return (
                "kv_cache_usage is constant 0 while requests are served: nobody sets it, so it is "
                "not reported"
            )
        return ""
