"""One file of the spool: whose exports of it still wait, and what it tells of losses."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.frame import Found
from exporters.delivery.loss import Losses, losses_in
from exporters.delivery.span import Span

__all__ = ["Segment", "path_of"]

_SUFFIX = ".spool"
_BLOCK_BYTES = 4096


def path_of(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}{_SUFFIX}"


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

    def add(self, found: Found) -> None:
        self._count(found, +1)

    def settle(self, found: Found) -> None:
        self._count(found, -1)

    def waiting(self, reason: str) -> Losses:
        """The exports that are lost with this file, for that reason."""
        return Counter({(owner, reason): n for owner, n in self.exports.items() if n})

    def _count(self, found: Found, sign: int) -> None:
        record, size = found.record, (found.end - found.offset) * sign
        if record.lost:
            self.gone += record.gone
            for key, n in losses_in(record).items():
                self.lost[key] += n * sign
        else:
            self.exports[record.owner] += sign
            self.bytes_of[record.owner] += size
