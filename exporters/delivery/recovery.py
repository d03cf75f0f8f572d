"""What a process that ended left in its spool: what waits, and what is missing."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.frame import scan, torn
from exporters.delivery.segment import Segment, Trace, trace_of
from exporters.delivery.span import Span, merged, uncovered

__all__ = ["Gap", "Recovered", "recover"]

_LARGEST_NUMBER = 2**62


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that are missing or damaged, and whose they probably were; () when nobody knows."""

    span: Span
    owner: Labels


@dataclass(slots=True)
class Recovered:
    """The files that wait, the oldest record that does, the next number, and what is missing.

    `gaps` are for the reader to count; `counted` are spans that a record of losses speaks of.
    """

    segments: list[Segment] = field(default_factory=list)
    head: int = 0
    following: int = 0
    gaps: tuple[Gap, ...] = ()
    counted: list[Span] = field(default_factory=list)
    memos_at_ns: dict[Labels, int] = field(default_factory=dict)


@dataclass(slots=True)
class _File:
    """One file as it was found."""

    path: Path
    first: int
    size_bytes: int = 0
    ends_badly: bool = True
    traces: list[Trace] = field(default_factory=list)
    memos_at_ns: dict[Labels, int] = field(default_factory=dict)

    @property
    def until(self) -> int:
        return self.traces[-1].number + 1 if self.traces else self.first


def recover(folder: Path, sent: int) -> Recovered:
    """Reads all files once. `sent` is the number that the last process would have sent next."""
    files = [_read(path, first) for first, path in sorted(_named(folder))]
    counted = merged(span for file in files for each in file.traces for span in each.gone)
    first = min((file.first for file in files), default=sent)
    head = _past(max(sent, first), counted)
    missing, following = _missing(files, head)
    into = Recovered(head=head, following=following, counted=counted)
    into.gaps = tuple(
        Gap(span, gap.owner) for gap in missing for span in uncovered(gap.span, counted)
    )
    for file in files:
        segment = _segment(file, head)
        is_dropped = _past(segment.first, counted) >= segment.until > head
        if is_dropped or segment.first >= following:  # not yet removed, or never written
            segment.path.unlink(missing_ok=True)
        else:
            into.segments.append(segment)
        for owner, at_ns in file.memos_at_ns.items():
            into.memos_at_ns[owner] = max(into.memos_at_ns.get(owner, at_ns), at_ns)
    return into


def _named(folder: Path) -> Iterable[tuple[int, Path]]:
    for entry in os.scandir(folder):
        stem, _, suffix = entry.name.partition(".")
        is_ours = suffix == "spool" and stem.isdecimal() and int(stem) < _LARGEST_NUMBER
        if is_ours and entry.is_file(follow_symlinks=False):
            yield int(stem), Path(entry.path)


def _read(path: Path, first: int) -> _File:
    """A file that cannot be read is a file without records: what was in it is missing."""
    file, end = _File(path, first), 0
    try:
        data = path.read_bytes()
    except OSError:
        return file
    for found in scan(data):
        record, end = found.record, found.end
        if record.number < file.until:
            continue
        file.traces.append(trace_of(record, found.end - found.offset))
        if record.has_memo:
            newest = file.memos_at_ns.get(record.owner, record.at_ns)
            file.memos_at_ns[record.owner] = max(newest, record.at_ns)
    file.size_bytes = len(data)
    file.ends_badly = end < len(data) and not torn(data, end)
    return file


def _segment(file: _File, head: int) -> Segment:
    segment = Segment(file.path, file.first, file.until, file.size_bytes)
    for each in file.traces:
        if each.number >= head:
            segment.add(each)
    return segment


def _missing(files: list[_File], head: int) -> tuple[list[Gap], int]:
    """Numbers from the head on that no file has, and the next number to give."""
    gaps: list[Gap] = []
    expected, owner = head, Labels()
    for file in files:
        if file.first > expected:
            gaps.append(Gap((expected, file.first), owner))
            expected = file.first
        for each in file.traces:
            if each.number > expected:
                gaps.append(Gap((expected, each.number), owner or each.owner))
            expected, owner = max(expected, each.number + 1), each.owner
    if files and files[-1].ends_badly:
        gaps.append(Gap((expected, expected + 1), owner))  # at least one
        expected += 1
    return gaps, expected


def _past(number: int, counted: list[Span]) -> int:
    """The first number from there on that no loss speaks of."""
    for first, until in counted:
        if first <= number < until:
            number = until
    return number
