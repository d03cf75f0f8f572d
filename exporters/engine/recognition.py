"""Whose page it is: told by the families that it has or declares, never by a setting."""

from collections.abc import Iterable
from functools import lru_cache

from exporters.engine.engines import ENGINES
from exporters.engine.table import CREATED, Engine
from exporters.engine.text import Page

__all__ = ["engines_of", "strangers"]

_EVERYBODY = ("python_", "process_", "go_", "promhttp_")
_SHOWN, _LONG = 4, 80


def engines_of(page: Page) -> tuple[Engine, ...]:
    """The engines whose families are on the page; the first one's words count."""
    named = page.names().union(page.types)
    return _engines(named) or _engines(page.all_names())


def strangers(page: Page) -> str:
    """What a page that is of no engine says and lacks, for the person who gave its address."""
    found = sorted(page.all_names().union(page.types))
    own = [name for name in found if not name.startswith(_EVERYBODY) and not name.endswith(CREATED)]
    first = [name[:_LONG] for name in (own or found)[:_SHOWN]]
    shown = ", ".join(first) or "nothing that has a name"
    more = len(own or found) - _SHOWN
    beginnings = sorted({beginning for engine in ENGINES for beginning in engine.prefixes} - {""})
    return (
        f"no engine's page: it has {shown}{f' and {more} more families' if more > 0 else ''}, "
        f"but none that begins with {', '.join(beginnings)}. Give the address of the engine's own "
        "metrics page, and switch its metrics on: docs/watch-any-engine.md says how"
    )


def _engines(names: Iterable[str]) -> tuple[Engine, ...]:
    found = set[Engine]().union(*(_whose(name[:_LONG]) for name in names))
    return tuple(engine for engine in ENGINES if engine in found)


@lru_cache(maxsize=4096)
def _whose(beginning: str) -> frozenset[Engine]:
    return frozenset(engine for engine in ENGINES if beginning.startswith(engine.beginnings))
