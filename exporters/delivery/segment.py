"""One file of the spool: whose exports of it still wait, and what it tells of losses."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.frame import Loss, Record
from exporters.delivery.loss import Losses
from exporters.delivery.span import Span

__all__ = ["Segment", "Trace", "path_of", "trace_of"]

_SUFFIX = ".spool"
_BLOCK_BYTES = 4096


def path_of(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Trace:
    """What is to be known of a record without keeping it: there may be very many."""

    number: int
    size_bytes: int
    owner: Labels
    lost: tuple[Loss, ...]
    gone: tuple[Span, ...]


def trace_of(record: Record, size_bytes: int) -> Trace:
    return Trace(record.number, size_bytes, record.owner, record.lost, record.gone)


@dataclass(slots=True)
class Segment:
    """Records `first` to before `until`, in one file. `exports` and `lost` are those that wait.

    `gone` are the numbers of which records of losses in it speak.
    """

    path: Path
    first: int
    until: int
    file_bytes: int = 0
    exports: Counter[Labels] = field(default_factory=Counter)
    bytes_of: Counter[Labels] = field(default_factory=Counter)
    lost: Losses = field(default_factory=Counter)
    gone: list[Span] = field(default_factory=list)

    @property
    def disk_bytes(self) -> int:
        """Whole blocks, as the disk counts."""
        return -(-self.file_bytes // _BLOCK_BYTES) * _BLOCK_BYTES

    def add(self, trace: Trace) -> None:
        self._count(trace, +1)

    def settle(self, trace: Trace) -> None:
        self._count(trace, -1)

    def waiting(self, reason: str) -> Losses:
        """The exports that are lost with this file, for that reason."""
        return Counter({(owner, reason): n for owner, n in self.exports.items() if n})

    def _count(self, trace: Trace, sign: int) -> None:
        if trace.lost:
            self.gone += trace.gone
            for owner, reason, n in trace.lost:
                self.lost[owner, reason] += n * sign
        else:
            self.exports[trace.owner] += sign
            self.bytes_of[trace.owner] += trace.size_bytes * sign
