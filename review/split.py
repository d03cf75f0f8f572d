"""A split: how many workers of which kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from review.period import Kind, Worker

__all__ = ["Split", "split_of"]


@dataclass(frozen=True, slots=True, order=True)
class Split:
    """Counts by kind, sorted, none of them zero."""

    counts: tuple[tuple[Kind, int], ...]

    def __post_init__(self) -> None:
        if any(count <= 0 for _, count in self.counts) or not self.counts:
            raise ValueError(
                f"a split has at least one worker of each kind it names: {self.counts}"
            )
        if self.merged and self.of("both") != self.workers:
            raise ValueError("workers that do both stand alone")

    def of(self, *roles: str) -> int:
        """How many workers have one of these roles."""
        return sum(count for kind, count in self.counts if kind.role in roles)

    def kinds(self, *roles: str) -> list[Kind]:
        """One kind per worker of these roles."""
        return [kind for kind, count in self.counts if kind.role in roles for _ in range(count)]

    @property
    def workers(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def merged(self) -> bool:
        """All workers do both."""
        return self.of("both") > 0

    def changed(self, changes: Iterable[tuple[Kind, int]]) -> Split | None:
        """With workers more or fewer; None where a role would have none, or fewer than none."""
        counts = dict(self.counts)
        for kind, change in changes:
            counts[kind] = counts.get(kind, 0) + change
        if any(count < 0 for count in counts.values()):
            return None
        kept = tuple(sorted((kind, count) for kind, count in counts.items() if count))
        roles = {kind.role for kind, _ in kept}
        if roles not in ({"prefill", "decode"}, {"both"}):
            return None
        return Split(kept)

    def __str__(self) -> str:
        if self.merged:
            return f"{self.workers} merged"
        return f"{self.of('prefill')}P:{self.of('decode')}D{self._types()}"

    def _types(self) -> str:
        """Which GPUs, where a role has several types."""
        told = [
            f"{count} {kind.gpu or '?'} {kind.role}"
            for kind, count in self.counts
            if sum(other.role == kind.role for other, _ in self.counts) > 1
        ]
        return f" ({', '.join(told)})" if told else ""


def split_of(workers: Iterable[Worker]) -> Split:
    """The split that these workers are."""
    counts: dict[Kind, int] = {}
    for worker in workers:
        counts[worker.kind] = counts.get(worker.kind, 0) + 1
    return Split(tuple(sorted(counts.items())))
