"""What can go wrong with one probe, and why in one word."""

import errno
import socket
import ssl

from domain.errors import InputError

__all__ = ["ProbeError", "no_connection", "plain"]

_WAY_OUT = "Is this the endpoint, and is it up?"
_CHARACTERS = 300


class ProbeError(InputError):
    """A probe that cannot go on; `reason` is a short word for a label."""

    def __init__(self, reason: str, problem: str, *, where: str, remedy: str = _WAY_OUT) -> None:
        super().__init__(problem, where=where, remedy=remedy)
        self.reason = reason


def plain(text: str) -> str:
    """The other side's words on one line of a bounded length, nothing unprintable in it."""
    words = " ".join(text[: 4 * _CHARACTERS].split())
    return "".join(letter for letter in words if letter.isprintable())[:_CHARACTERS]


def no_connection(error: OSError, where: str) -> ProbeError:
    """Which of the ways a connection can fail this was."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ProbeError(
            "tls",
            f"its certificate is not trusted: {plain(error.verify_message)}",
            where=where,
            remedy="Give the authority's certificate as `ca_file`, or the name it was made for.",
        )
    if isinstance(error, ssl.SSLError):
        return ProbeError("tls", f"no secure connection: {plain(str(error))}", where=where)
    if isinstance(error, socket.gaierror):
        return ProbeError(
            "dns",
            f"its name cannot be resolved: {plain(error.strerror or str(error))}",
            where=where,
            remedy="Look at the resolver, and at the spelling.",
        )
    if error.errno == errno.ECONNREFUSED:
        return ProbeError(
            "refused", "the connection is refused", where=where, remedy="Is anything running there?"
        )
    if isinstance(error, TimeoutError):
        return ProbeError("connect_timeout", "nobody answers the TCP handshake", where=where)
    told = error.strerror or str(error) or type(error).__name__
    return ProbeError("unreachable", f"no connection: {plain(told)}", where=where)
