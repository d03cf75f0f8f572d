"""What an exporter hands over: one encoded export, whose it is, and what to remember with it."""

from dataclasses import dataclass

from domain.labels import Labels

__all__ = ["Export", "Waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One serialised ExportMetricsServiceRequest, or with `traces` an ExportTraceServiceRequest.

    `owner` are the labels under which it is counted should it be lost. `memo` is what the source
    wants back after a restart: it agrees with the exports that were kept, whenever the process
    ends. None leaves the memo as it is, b"" forgets it.
    """

    owner: Labels
    at_ns: int
    body: bytes
    memo: bytes | None = None
    traces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What of one owner waits to be sent, and how old the oldest export is that waits."""

    exports: int = 0
    size_bytes: int = 0
    oldest_age_s: float = 0.0
