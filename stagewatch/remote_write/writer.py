"""The way out: what was summed up waits on disk until a Prometheus has taken it, oldest first.

Prometheus takes samples in the order of their time, so nothing overtakes what waits. An answer that
speaks of the samples themselves (400, 413, 422) is final; every other is tried again, later and later.
"""

from __future__ import annotations

import gzip
import logging
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Self

import cramjam
import httpx

from domain.errors import ConfigError
from domain.labels import Labels
from domain.retry_after import asked_s
from exporters.delivery.export import Export
from exporters.delivery.frame import Record
from exporters.delivery.outbox import Outbox
from exporters.probe.secret import without
from stagewatch.remote_write.message import series_of, write_request
from stagewatch.remote_write.settings import RemoteWriteOutSettings
from stagewatch.summary.summary import Told

__all__ = ["RemoteWriter"]

_LOG = logging.getLogger(__name__)
_OWNER = (("service", "stagewatch"),)
_REFUSED = (400, 413, 422)
_BATCH_BYTES = 256 * 1024
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LONGEST_ASKED_S = 0.5, 60.0, 300.0
_LAST_TRY_S = 1.0
_PATIENCE_S, _LOOK_S = 2.0, 0.25
_ANSWER_BYTES = 500
_SHORTEST_SECRET = 4  # what is shorter is a tenant's number, and a piece of many an honest word


class RemoteWriter:
    """Writes while its block lasts; `put` from one thread."""

    def __init__(self, settings: RemoteWriteOutSettings, url: str, folder: Path) -> None:
        self._settings, self._url = settings, url
        self._outbox = Outbox(
            folder, max_bytes=settings.spool_bytes, max_age_s=settings.spool_age_s
        )
        self._client = httpx.Client(
            follow_redirects=False,
            trust_env=False,
            timeout=settings.timeout_s,
            verify=_trusted(settings),
        )
        self._arrived, self._stop = threading.Event(), threading.Event()
        # why a daemon: one that hangs in a cut connection must not keep the process from ending
        self._thread = threading.Thread(target=self.run, name="remote-write out", daemon=True)
        self._living: frozenset[Labels] = frozenset()
        self._stamped: Mapping[Labels, float] = {}
        self._counts: Counter[str] = Counter()
        self._failures = 0
        self._said = self._answered = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What waits on disk is sent by the next process."""
        self._stop.set()
        self._thread.join(_PATIENCE_S)
        self.close()

    def close(self) -> None:
        """Lets go of the folder, and of the connection unless somebody waits for an answer."""
        self._outbox.close()
        if not self._thread.is_alive():
            self._client.close()

    def put(self, told: Told) -> None:
        """Keeps it until it is taken. Series that are gone are said to be, or they would linger.

        Who has an instant of its own is told once of it, and ends by itself: what comes later could
        be of before such an end.
        """
        every = series_of(told.families, self._settings.labels)
        stamped = {labels: each.at_s for labels, each in every.items() if each.at_s is not None}
        series = {
            labels: each
            for labels, each in every.items()
            if labels not in stamped or stamped[labels] > self._stamped.get(labels, 0.0)
        }
        living = every.keys() - stamped.keys()
        gone, self._living, self._stamped = self._living - living, frozenset(living), stamped
        body = write_request(series, gone, at_s=told.at_s)
        self._outbox.put(Export(owner=_OWNER, at_ns=int(told.at_s * 1e9), body=body))
        self._arrived.set()

    def run(self) -> None:
        """Until the block ends, and then one last time."""
        while not self._stop.is_set():
            self._arrived.clear()
            wait_s = self.send_some(time.time())
            if wait_s is None:
                while not self._arrived.wait(_LOOK_S) and not self._stop.is_set():
                    pass
            elif wait_s > 0:
                self._stop.wait(wait_s)
        self._client.timeout = httpx.Timeout(_LAST_TRY_S)
        self.send_some(time.time())

    def send_some(self, now_s: float) -> float | None:
        """Sends what waits longest; seconds until the next try, None where nothing waits."""
        records = self._outbox.take(_BATCH_BYTES)
        if not records:
            return None
        try:
            return self._sent(records, now_s)
        finally:
            self._outbox.release()

    def counts(self) -> Mapping[str, float]:
        """For our own metrics."""
        on_disk, in_memory = self._outbox.held_bytes()
        return {
            "stagewatch_remote_write_out_waiting_bytes": float(on_disk + in_memory),
            "stagewatch_remote_write_out_lost_total": float(self._outbox.lost().total()),
            **{
                f"stagewatch_remote_write_out_{name}_total": float(self._counts[name])
                for name in ("sent", "refused", "retried")
            },
        }

    def problem(self) -> str | None:
        """Why nobody takes what we write, or None."""
        return f"remote_write_out: {self._said}" if self._failures > 2 else None

    def _sent(self, records: list[Record], now_s: float) -> float:
        """Losses that the outbox tells of are no samples: they are counted on our own page."""
        if records[0].lost:
            self._outbox.settle()
            return 0.0
        several = [*takewhile(lambda each: not each.lost, records)]
        status, retry_after = self._post(b"".join(gzip.decompress(each.packed) for each in several))
        if status is not None and 200 <= status < 300:
            return self._settle(several)
        if status not in _REFUSED:
            return self._later(retry_after, now_s)
        if len(several) > 1:  # why alone: one that is refused takes no other with it
            return self._sent(several[:1], now_s)
        _LOG.error("%s: %s; these samples are dropped", self._host, self._both)
        self._outbox.settle(refused=True)
        self._counts["refused"] += 1
        self._failures = 0
        return 0.0

    def _settle(self, records: list[Record]) -> float:
        for _ in records:
            self._outbox.settle()
        if self._failures:
            _LOG.warning("%s takes samples again", self._host)
        self._counts["sent"] += len(records)
        self._failures = 0
        return 0.0

    def _later(self, retry_after: str, now_s: float) -> float:
        """As long as it says; else twice as long as the last time, with jitter."""
        self._failures += 1
        self._counts["retried"] += 1
        if self._failures == 1:
            _LOG.warning("%s: %s; samples wait", self._host, self._both)
        told_s = asked_s(retry_after, now_s=now_s, most_s=_LONGEST_ASKED_S)
        if told_s is not None:
            return max(told_s, 0.1)
        most_s: float = min(_FIRST_WAIT_S * 2 ** min(self._failures - 1, 20), _LONGEST_WAIT_S)
        return most_s * random.uniform(0.5, 1)  # noqa: S311 - jitter, no secret

    def _post(self, body: bytes) -> tuple[int | None, str]:
        """Status and Retry-After; no status where there was no answer."""
        headers = {name: value.get_secret_value() for name, value in self._settings.headers.items()}
        headers |= {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        packed = bytes(cramjam.snappy.compress_raw(body))
        try:
            with self._client.stream("POST", self._url, content=packed, headers=headers) as answer:
                said = next(answer.iter_raw(_ANSWER_BYTES), b"")[:_ANSWER_BYTES]
                self._said = f"HTTP {answer.status_code}"
                self._answered = self._masked(said.decode("utf-8", "replace"))
                return answer.status_code, answer.headers.get("Retry-After", "")
        except httpx.HTTPError as error:
            self._said, self._answered = f"no answer: {type(error).__name__}", ""
            return None, ""

    @property
    def _both(self) -> str:
        """For the log alone: `/readyz` is for everybody, and what others answer is not."""
        return f"{self._said} {self._answered}".rstrip()

    def _masked(self, text: str) -> str:
        """One line, without what we sent in confidence: who refuses a key likes to repeat it."""
        values = [value.get_secret_value() for value in self._settings.headers.values()]
        words = {part for each in values for part in (each, each.rpartition(" ")[2])}
        secrets = (word for word in words if len(word) >= _SHORTEST_SECRET)
        shown = without(sorted(secrets, key=len, reverse=True), text)
        return " ".join("".join(c if c.isprintable() else " " for c in shown).split())

    @property
    def _host(self) -> str:
        return f"remote_write_out ({httpx.URL(self._url).host})"


def _trusted(settings: RemoteWriteOutSettings) -> ssl.SSLContext:
    if settings.ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"no certificates can be read there: {error}",
            where=f"remote_write_out.ca_file {settings.ca_file}",
            remedy="Name a file of certificates in PEM.",
        ) from error
