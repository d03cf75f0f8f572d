"""The scheduled review: one at a time, in a process of its own that gives way to everything else."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alerts.tables import writing
from alerts.telling import queue
from collector.query import Window
from domain.errors import StagewatchError
from review.timetable import Cron, Standing, Timetable
from stagewatch.config import Config

__all__ = ["ReviewSchedule", "notice_of"]

_LOG = logging.getLogger(__name__)
_LOOK_S: Final = 5.0
_SETTLING_S: Final = 120.0  # what arrived last is answered, and late exports have come
_GIVES_WAY: Final = 15
_DAY_S: Final = 86_400

Told = tuple[str, Any]


class ReviewSchedule:
    """Belongs to one thread. `leads`: whether this process is the one that acts."""

    def __init__(
        self, config: Config, cron: Cron, state: Engine, *, leads: Callable[[], bool]
    ) -> None:
        self._config, self._cron, self._state, self._leads = config, cron, state, leads
        self._timetable = Timetable(config.store.data_dir / "reviews")
        self._standing: Standing | None = None
        self._trouble = ""

    def run(self, stop: threading.Event, clock: Callable[[], float] = time.time) -> None:
        """Until told to stop; a review that runs then is given up, and made up for at the next start."""
        while not stop.is_set():
            try:
                self.tick(stop, clock())
                self._trouble = ""
            except Exception as error:  # noqa: BLE001 - why all: the pager must outlive the review
                _LOG.exception("the schedule of the review")
                self._trouble = str(error) or type(error).__name__
            stop.wait(_LOOK_S)

    def tick(self, stop: threading.Event, now_s: float) -> None:
        """Runs what is due: of several instants that were missed, the last."""
        if not self._leads():
            return
        if self._standing is None:
            self._standing = self._timetable.begin(self._cron, now_s)
        due_s = self._cron.last(now_s - _SETTLING_S)
        if due_s is None or due_s <= self._standing.ran_for_s:
            return
        failures = self._run(due_s, stop)
        if stop.is_set():
            return
        self._note(
            ran_for_s=due_s,
            next_s=self._cron.after(now_s),
            running="",
            done=0,
            of=0,
            failed="; ".join(failures)[:2000],
            failed_at_s=now_s if failures else None,
        )

    def problem(self) -> str | None:
        """Why there is no new review, where one was due."""
        failed = "" if self._standing is None else self._standing.failed
        said = self._trouble or failed
        return f"the scheduled review failed: {said}" if said else None

    def _run(self, due_s: float, stop: threading.Event) -> list[str]:
        """What went wrong, service by service."""
        until_s = int(due_s)
        window = Window(since_s=until_s - self._config.review.days * _DAY_S, until_s=until_s)
        failures = []
        for service in self._config.review.services or (None,):
            for kind, told in self._one(window, service, stop):
                if kind == "failed":
                    failures.append(told["why"])
                self._tell(kind, told, due_s)
        return failures

    def _one(self, window: Window, service: str | None, stop: threading.Event) -> list[Told]:
        """What the process of one run said, apart from how far it was."""
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe(duplex=False)
        child = spawning.Process(
            target=_child, args=(self._config, window, service, theirs), name="review", daemon=True
        )
        child.start()
        theirs.close()
        found: list[Told] = []
        try:
            while not stop.is_set():
                if not ours.poll(0.2):
                    continue
                kind, told = ours.recv()
                if kind == "progress":
                    self._note(running=told["what"], done=told["done"], of=told["of"])
                else:
                    found.append((kind, told))
        except EOFError:
            child.join()
        finally:
            child.kill()
            child.join()
            ours.close()
        if not found and not stop.is_set():
            why = f"its process ended with {child.exitcode} and said nothing (out of memory?)"
            found.append(("failed", {"service": service or "", "why": why}))
        return found

    def _note(self, **told: Any) -> None:
        if self._standing is None:
            raise AssertionError("a run begins with what the timetable knows")
        self._standing = replace(self._standing, **told)
        self._timetable.write(self._standing)

    def _tell(self, kind: str, told: dict[str, Any], due_s: float) -> None:
        """Every receiver that is named, or all: through the outbox, so that nothing is lost."""
        named = self._config.review.receivers
        names = [e.name for e in self._config.receivers if not named or e.name in named]
        body = notice_of(kind, told, due_s=due_s, link=self._config.alerts.public_url)
        with writing(self._state) as session, session.begin():
            for name in names:
                _queue(session, name, body)


def notice_of(kind: str, told: dict[str, Any], *, due_s: float, link: str) -> dict[str, Any]:
    """A note as receivers take it: the advice, or why there is none."""
    of_what = f" of {told['service']}" if told["service"] else ""
    failed = kind == "failed"
    text = f"There is no review{of_what}: {told['why']}" if failed else told["says"]
    identity = f"review {told['service']} {due_s:.0f} {kind}"
    return {
        "version": 1,
        "event": "note",
        "dedup_key": identity,
        "alert_id": "",
        "objective": f"Weekly review{of_what}",
        "objective_id": "",
        "severity": "ticket" if failed else "info",
        "tier": "review",
        "text": text,
        "why": list(told.get("reasons", ())),
        "labels": {"service": told["service"]} if told["service"] else {},
        "started_at": datetime.fromtimestamp(due_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "links": {"alert": f"{link}/balance"} if link else {},
    }


def _queue(session: Session, name: str, body: dict[str, Any]) -> None:
    queue(session, name, body, f"{body['dedup_key']} {name}", now_s=time.time())


def _child(config: Config, window: Window, service: str | None, parent: Connection) -> None:
    """A process that reviews, says how far it is, and ends."""
    # why: some containers forbid it; then it is as loud as others
    with contextlib.suppress(OSError):
        os.nice(_GIVES_WAY)
    from collector.reader import StoreReader  # noqa: PLC0415 - only here
    from stagewatch.reviewing import review_of_store  # noqa: PLC0415 - brings numba

    names: Sequence[str | None] = (service,)
    if service is None:
        with contextlib.closing(StoreReader(config.store.data_dir)) as reader:
            names = sorted(filter(None, reader.label_values("service", window))) or (None,)
    for name in names:

        def progress(done: int, of: int, what: str, name: str | None = name) -> None:
            parent.send(
                ("progress", {"done": done, "of": of, "what": f"{name or 'review'}: {what}"})
            )

        progress(0, 0, "reading requests")
        try:
            kept = review_of_store(
                config, window, service=name, now_s=float(window.until_s), progress=progress
            )
        except StagewatchError as error:
            parent.send(("failed", {"service": name or "", "why": str(error)}))
            continue
        verdict = kept.review.verdict
        parent.send(
            ("kept", {"service": name or "", "says": verdict.says, "reasons": verdict.reasons})
        )
    parent.close()
