"""The last scrapes of every target on disk, so that a restart loses no interval.

They are written before what they say is handed over. After a kill the last interval is told once
more with the same bounds, and the store knows it again; had it been written afterwards, the next
interval would overlap what was told already.
"""

from __future__ import annotations

import hashlib
import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from domain.labels import Labels
from stagewatch.prometheus.watch import Spoken, Told

__all__ = ["Keeper", "Kept"]

_LOG = logging.getLogger(__name__)
_QUICK: Final = 1
_MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What another process left of a target."""

    scrapes: Sequence[Told] = ()
    spoken: Mapping[Spoken, str] = field(default_factory=dict)


class Keeper:
    """One small file per target in a folder of the store."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def keep(self, target: Labels, scrapes: Sequence[Told], spoken: Mapping[Spoken, str]) -> None:
        """Replace what is kept of a target; a file is there whole or not at all."""
        path = self._path(target)
        fresh = path.with_suffix(".new")
        written = {
            "target": target,
            "scrapes": [_written(told) for told in scrapes],
            "spoken": [(*key, sample) for key, sample in spoken.items()],
        }
        try:
            fresh.write_bytes(zlib.compress(orjson.dumps(written), _QUICK))
            fresh.replace(path)
        except OSError as error:
            _LOG.error("%s cannot be written: %s. A restart loses an interval.", path, error)
            path.unlink(missing_ok=True)  # why: an older one would be worse than none

    def kept(self, target: Labels) -> Kept:
        """What is kept of a target; nothing where that cannot be read."""
        path = self._path(target)
        try:
            inflater = zlib.decompressobj()
            read = orjson.loads(inflater.decompress(path.read_bytes(), _MOST_BYTES))
            return Kept(
                scrapes=[_read(told) for told in read["scrapes"]],
                spoken={(metric, _pairs(of)): sample for metric, of, sample in read["spoken"]},
            )
        except FileNotFoundError:
            return Kept()
        except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
            _LOG.warning("%s is not believed (%s): its target begins anew", path, error)
            return Kept()

    def forget(self, older_than_s: float) -> None:
        """Remove what belongs to targets that have not been heard of since then."""
        for path in self._folder.glob("*.scrapes"):
            if path.stat().st_mtime < older_than_s:
                path.unlink(missing_ok=True)

    def _path(self, target: Labels) -> Path:
        name = hashlib.sha256(repr(target).encode()).hexdigest()[:32]
        return self._folder / f"{name}.scrapes"


def _written(told: Told) -> dict[str, Any]:
    lines = [(name, labels, _number(value)) for name, labels, value in told.lines]
    return {"at_ms": told.at_ms, "ours": told.ours, "lines": lines}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)  # JSON knows no other numbers


def _read(told: dict[str, Any]) -> Told:
    lines = tuple((name, _pairs(labels), float(value)) for name, labels, value in told["lines"])
    return Told(at_ms=int(told["at_ms"]), lines=lines, ours=_pairs(told["ours"]))


def _pairs(pairs: Sequence[Sequence[str]]) -> Labels:
    return tuple((name, value) for name, value in pairs)
