"""The course of one run: which request is for what, when the window is open, and when it ends."""

from collections import Counter

from exporters.ladder.plan import Guards
from exporters.ladder.sample import Phase, Sample

__all__ = ["Course"]


class Course:
    """Told of each beginning and end, it says what a request is for and whether we are done.

    Until the first `warm_up` requests have ended, none is judged: the server fills. The next
    `measured` are. Load goes on after them until the last has ended, so that none is measured on
    an emptying server.
    """

    def __init__(self, *, warm_up: int, measured: int, guards: Guards) -> None:
        self.samples: list[Sample] = []
        self.opened_at_s: float | None = None
        self.closed_at_s: float | None = None
        self.stopped = ""
        self.is_abandoned = False
        self.judged = self.cool_downs = 0
        self._begun = self._warm_ups_ended = self._measured_begun = 0
        self._began_at_s: float | None = None
        self._warm_up, self._wanted, self._guards = warm_up, measured, guards
        self._failures: Counter[str] = Counter()

    def begin(self, at_s: float) -> Phase:
        """What the request that begins now is for."""
        self._begun += 1
        if self._began_at_s is None:
            self._began_at_s = at_s
        if self._is_warming_up(at_s):
            return Phase.WARM_UP
        if self._takes_more(at_s):
            if self.opened_at_s is None:
                self.opened_at_s = at_s
            self._measured_begun += 1
            return Phase.MEASURED
        self.close(at_s)
        self.cool_downs += 1
        return Phase.COOL_DOWN

    def end(self, sample: Sample) -> None:
        self.samples.append(sample)
        self.judged += sample.phase is Phase.MEASURED
        self._warm_ups_ended += sample.phase is Phase.WARM_UP
        if sample.phase is not Phase.COOL_DOWN and not sample.ok:
            self._failures[sample.failure] += 1
        self._look_at_errors(sample.ended_at_s)

    def close(self, at_s: float) -> None:
        """The window ends here, if it was open and has not ended yet."""
        if self.opened_at_s is not None and self.closed_at_s is None:
            self.closed_at_s = at_s

    def stop(self, reason: str, at_s: float) -> None:
        """Nothing more is measured than has begun; the first reason stays."""
        self.stopped = self.stopped or reason
        self.close(at_s)

    def abandon(self, reason: str, at_s: float) -> None:
        """Ends here and now, with what has ended."""
        self.stop(reason, at_s)
        self.is_abandoned = True

    @property
    def is_over(self) -> bool:
        """Nothing more will be judged."""
        closed = bool(self.stopped) or self.closed_at_s is not None
        return self.is_abandoned or (closed and self.judged >= self._measured_begun)

    @property
    def wanted(self) -> int:
        return self._wanted

    def _is_warming_up(self, at_s: float) -> bool:
        """Not for longer than a run may last, unless none has begun as it should."""
        if self.opened_at_s is not None or self.stopped:
            return False
        if self._begun <= self._warm_up:
            return True
        late = self._began_at_s is not None and at_s >= self._began_at_s + self._guards.run_s
        return self._warm_ups_ended < self._warm_up and not late

    def _takes_more(self, at_s: float) -> bool:
        if self.stopped or self.closed_at_s is not None or self._measured_begun >= self._wanted:
            return False
        return self.opened_at_s is None or at_s < self.opened_at_s + self._guards.run_s

    def _look_at_errors(self, at_s: float) -> None:
        failed, ended = self._failures.total(), len(self.samples)
        if ended < self._guards.errors_from or failed <= self._guards.max_error_share * ended:
            return
        named = ", ".join(f"{reason} ({n})" for reason, n in self._failures.most_common(3))
        self.abandon(f"{failed} of {ended} requests failed: {named}", at_s)
