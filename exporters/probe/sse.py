"""Server-sent events out of bytes that come in any pieces; every length is bounded."""

from exporters.probe.failure import ProbeError

__all__ = ["LINE_BYTES", "Events"]

LINE_BYTES = 1024 * 1024
_TOTAL_BYTES = 64 * 1024 * 1024
_END = b"\n"


class Events:
    """A stream's events, as they become whole: their data, without names, ids and comments.

    A line that begins with `{` is an event of its own: some servers send JSON lines.
    """

    def __init__(self, where: str) -> None:
        self.comments = 0
        self.total_bytes = 0
        self._where = where
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_return = False
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece completes."""
        self.total_bytes += len(piece)
        if self.total_bytes > _TOTAL_BYTES:
            raise self._too_long("the answer", _TOTAL_BYTES)
        if self._after_return and piece:  # \r\n across two pieces is one end
            piece = piece.removeprefix(b"\n")
            self._after_return = False
        self._after_return = piece.endswith(b"\r")
        found: list[bytes] = []
        *ended, rest = piece.replace(b"\r\n", _END).replace(b"\r", _END).split(_END)
        for part in ended:
            self._grow(part)
            self._take(bytes(self._line), found)
            self._line.clear()
        self._grow(rest)
        return found

    def rest(self) -> list[bytes]:
        """What stands there without its end when the stream is over."""
        found: list[bytes] = []
        self._take(bytes(self._line), found)
        self._take(b"", found)
        self._line.clear()
        return found

    def _grow(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > LINE_BYTES:
            raise self._too_long("a line", LINE_BYTES)

    def _take(self, line: bytes, found: list[bytes]) -> None:
        if not self._begun:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._begun = True
        if not line:
            if self._data:
                found.append(b"\n".join(self._data))
                self._data.clear()
                self._data_bytes = 0
        elif line.startswith(b"data:"):
            self._add(line[5:].removeprefix(b" "))
        elif line.startswith(b"{"):
            found.append(line)
        elif line.startswith(b":"):
            self.comments += 1

    def _add(self, data: bytes) -> None:
        self._data_bytes += len(data) + 1
        if self._data_bytes > LINE_BYTES:
            raise self._too_long("an event", LINE_BYTES)
        self._data.append(data)

    def _too_long(self, what: str, limit: int) -> ProbeError:
        return ProbeError(
            "too_large",
            f"{what} is longer than {limit} bytes",
            where=self._where,
            remedy="Is this a token stream?",
        )
