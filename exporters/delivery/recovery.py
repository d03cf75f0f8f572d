"""What a process that ended left in its spool: what waits, and what is missing."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.frame import Found, scan, torn
from exporters.delivery.segment import Segment
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
    found: list[Found]
    size_bytes: int
    ends_badly: bool


def recover(folder: Path, sent: int) -> Recovered:
    """Reads all files once. `sent` is the number that the last process would have sent next."""
    files = [_read(path, first) for first, path in sorted(_named(folder))]
    told = [each.record for file in files for each in file.found]
    counted = merged(span for each in told for span in each.gone)
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
    for record in told:
        if record.has_memo:
            newest = into.memos_at_ns.get(record.owner, record.at_ns)
            into.memos_at_ns[record.owner] = max(newest, record.at_ns)
    return into


def _named(folder: Path) -> Iterable[tuple[int, Path]]:
    for entry in os.scandir(folder):
        stem, _, suffix = entry.name.partition(".")
        is_ours = suffix == "spool" and stem.isdecimal() and int(stem) < _LARGEST_NUMBER
        if is_ours and entry.is_file(follow_symlinks=False):
            yield int(stem), Path(entry.path)


def _read(path: Path, first: int) -> _File:
    """A file that cannot be read is a file without records: what was in it is missing."""
    try:
        data = path.read_bytes()
    except OSError:
        return _File(path, first, [], 0, ends_badly=True)
    found = [each for each in scan(data) if each.record.number >= first]
    end = found[-1].end if found else 0
    return _File(path, first, found, len(data), ends_badly=end < len(data) and not torn(data, end))


def _segment(file: _File, head: int) -> Segment:
    until = file.found[-1].record.number + 1 if file.found else file.first
    segment = Segment(file.path, file.first, until, file.size_bytes)
    for each in file.found:
        if each.record.number >= head:
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
        for each in file.found:
            number = each.record.number
            if number > expected:
                gaps.append(Gap((expected, number), owner or each.record.owner))
            expected, owner = max(expected, number + 1), each.record.owner
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
