"""Records in memory: all that there is without a disk, a stopgap while the disk takes nothing."""

from collections import Counter, deque
from collections.abc import Iterable

from domain.labels import Labels
from exporters.delivery.frame import Record

__all__ = ["MEMORY_BYTES", "Memory"]

MEMORY_BYTES = 16 * 1024 * 1024


class Memory:
    """In order, within its bytes; it says what it had to drop."""

    def __init__(self, max_bytes: int = MEMORY_BYTES) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._waiting: deque[Record] = deque()
        self.exports: Counter[Labels] = Counter()
        self.bytes_of: Counter[Labels] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest(self) -> Record | None:
        return self._waiting[0] if self._waiting else None

    def append(self, record: Record) -> list[Record]:
        """What had to go for it, the oldest first."""
        self._waiting.append(record)
        self._count(record, +1)
        dropped = []
        while self.size_bytes > self._max_bytes:
            dropped.append(self.pop())
        return dropped

    def pop(self) -> Record:
        """The oldest, which is here no longer."""
        record = self._waiting.popleft()
        self._count(record, -1)
        return record

    def take(self, max_bytes: int) -> list[Record]:
        """As many of the oldest as these plain bytes hold, at least one; they are here no longer."""
        taken: list[Record] = []
        while self._waiting and (not taken or self._waiting[0].plain_bytes <= max_bytes):
            taken.append(self.pop())
            max_bytes -= taken[-1].plain_bytes
        return taken

    def give_back(self, records: Iterable[Record]) -> None:
        """In front of all others."""
        for record in reversed(list(records)):
            self._waiting.appendleft(record)
            self._count(record, +1)

    def _count(self, record: Record, sign: int) -> None:
        size = len(record.packed) * sign
        self.size_bytes += size
        if not record.lost:
            self.exports[record.owner] += sign
            self.bytes_of[record.owner] += size
