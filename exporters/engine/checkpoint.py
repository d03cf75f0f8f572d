"""The pages from which a new process knows what the last one knew of its target.

Mostly that is the last page alone. A page that was cut off, or on which something is missing that
was there before, does not say everything: the pages before it are kept with it, as long as they are
few.
"""

import json
import zlib
from collections.abc import Sequence

from exporters.engine.text import Page

__all__ = ["Checkpoint", "pages_in"]

_MOST_PAGES = 8
_MOST_CHARS = 64 * 1024 * 1024
_OLDEST_S = 600.0  # why: what an engine did in hours must not stand in one minute of a chart
_SECOND_NS = 1_000_000_000


class Checkpoint:
    """Of one target, in the form in which it is put beside its exports."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pages: list[tuple[int, bytes]] = []
        self._kept: list[Page] = []

    def after(self, page: Page, text: str, at_ns: int, *, is_settled: bool) -> bytes:
        """What is to be remembered now. Not settled: of an earlier page something is still to come."""
        is_whole = not page.torn and not page.suspects
        # why all of them: one that was cut off between two others lacks nothing of the first
        lacks = any(page.lacks(each) for each in self._kept)
        one = (at_ns, zlib.compress(text.encode(), 1))
        if (is_whole and is_settled and not lacks) or len(self._kept) >= _MOST_PAGES:
            self._pages, self._kept = ([one] if is_whole else []), [page]
        else:
            self._pages.append(one)
            self._kept.append(page)
        return self._content() if self._pages else b""

    def forget(self) -> bytes:
        """Counting begins anew with the next page."""
        self._pages, self._kept = [], []
        return b""

    def _content(self) -> bytes:
        sizes = [(at_ns, len(packed)) for at_ns, packed in self._pages]
        head = json.dumps({"url": self._url, "pages": sizes}).encode()
        return b"\n".join((head, b"".join(packed for _, packed in self._pages)))


def pages_in(content: bytes | None, url: str, *, now_ns: int) -> Sequence[tuple[int, str]]:
    """The pages of a checkpoint and their instants; none if it is another's, too old, or broken."""
    try:
        head, _, rest = (content or b"").partition(b"\n")
        said = json.loads(head)
        found: list[tuple[int, str]] = []
        for at_ns, size in said["pages"]:
            found.append((int(at_ns), _unpacked(rest[:size])))
            rest = rest[size:]
    except (ValueError, KeyError, TypeError, OverflowError, zlib.error):
        return ()
    if said.get("url") != url or not found:
        return ()
    age_s = (now_ns - found[-1][0]) / _SECOND_NS
    return found if 0 <= age_s <= _OLDEST_S else ()


def _unpacked(packed: bytes) -> str:
    return zlib.decompressobj().decompress(packed, _MOST_CHARS).decode()
