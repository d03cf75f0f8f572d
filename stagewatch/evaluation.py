"""The evaluation in a process: while it leads, promises and engines are judged and people told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from sqlalchemy import Engine

from alerts.borrowed_silences import BorrowedSilences
from alerts.caretaker import Caretaker
from alerts.definition import Promises, gather_all
from alerts.delivery import Delivery
from alerts.evaluator import Evaluator
from alerts.heartbeat import Heartbeat
from alerts.leadership import Leadership
from alerts.pagerduty_sync import PagerDutySync
from alerts.receivers.readiness import ready
from alerts.settings import AlertsSettings
from alerts.watch import Watch
from collector.reader import StoreReader

__all__ = ["Evaluation"]

_PATIENCE_S = 2.0


class Evaluation:
    """All that works while this process leads, and what it says of itself."""

    def __init__(self, settings: AlertsSettings, state: Engine, data_dir: Path) -> None:
        self._settings = settings
        self._data_dir = data_dir
        self._promised = gather_all(settings.objectives)
        ready(settings.receivers, self._promised.definitions)
        self._term: _Term | None = None
        self._leadership = Leadership(state, lasts_s=settings.lead.lease_s)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lets go of the lead at the end."""
        try:
            yield
        finally:
            self._leadership.close()

    def run(self, stop: threading.Event) -> None:
        """Until told to stop."""
        self._leadership.run(stop, self._govern)

    def problem(self) -> str | None:
        """Why nobody is judged or told, as far as it is this process's to do."""
        term = self._term
        said = [self._leadership.problem(), *(() if term is None else term.problems())]
        return "; ".join(each for each in said if each) or None

    def warning(self) -> str | None:
        """What does not keep it from judging and telling."""
        term = self._term
        said = () if term is None else (term.heartbeat.problem(), term.delivery.warning())
        return "; ".join(each for each in said if each) or None

    @property
    def leads(self) -> bool:
        return self._leadership.leads

    def heartbeat(self) -> str | None:
        """None where none is set, "" where it gets through, else why not."""
        term = self._term
        if self._settings.heartbeat.url is None:
            return None
        return (term.heartbeat.problem() or "") if term is not None else ""

    def counts(self) -> Mapping[str, float]:
        """For our own metrics."""
        term = self._term
        told = {} if term is None else dict(term.delivery.counts())
        return {"stagewatch_alerts_leading": float(self._leadership.leads), **told}

    def _govern(self, state: Engine) -> Callable[[], None]:
        term = _Term(self._settings, self._promised, state, StoreReader(self._data_dir))
        term.begin()
        self._term = term

        def end() -> None:
            self._term = None
            term.end()

        return end


class _Term:
    """From the begin of a lead to its end. Memory of an earlier one would be out of date."""

    def __init__(
        self,
        settings: AlertsSettings,
        promised: Promises,
        state: Engine,
        reader: StoreReader,
    ) -> None:
        self._reader = reader
        self._stop = threading.Event()
        self.delivery = Delivery(state, settings.receivers)
        wake = self.delivery.wake
        self._evaluator = Evaluator(
            reader,
            promised.definitions,
            state,
            settings=settings,
            wake=wake,
            composites=promised.composites,
        )
        self._watch = Watch(reader, state, settings=settings, wake=wake)
        self._caretaker = Caretaker(state, wake=wake)
        self._sync = PagerDutySync(state, settings.receivers)
        self._silences = BorrowedSilences(state, settings.receivers)
        self.heartbeat = Heartbeat(
            settings.heartbeat,
            state,
            receivers=[each.name for each in settings.receivers],
            problems=[self._evaluator.problem, self._watch.problem, self._caretaker.problem],
            grace_s=settings.grace_s,
        )
        loops = {
            "evaluator": self._evaluator.run,
            "watch": self._watch.run,
            "caretaker": self._caretaker.run,
            "pagerduty": self._sync.run,
            "silences": self._silences.run,
            "heartbeat": self.heartbeat.run,
        }
        # why daemons: one that hangs in a cut connection must not keep the process from ending
        self._threads = [
            threading.Thread(target=run, args=(self._stop,), name=name, daemon=True)
            for name, run in loops.items()
        ]

    def problems(self) -> Sequence[str | None]:
        return [each.problem() for each in (self._evaluator, self._watch, self._caretaker)]

    def begin(self) -> None:
        self.delivery.start()
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Tells all to stop. What hangs is left behind: it can write nothing any more."""
        self._stop.set()
        until_s = monotonic() + _PATIENCE_S
        self.delivery.close(_PATIENCE_S)
        for thread in self._threads:
            thread.join(max(until_s - monotonic(), 0.0))
        if not any(thread.is_alive() for thread in self._threads):
            self._reader.close()
