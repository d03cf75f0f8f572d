"""How far a climb is: one line that is rewritten on a terminal, plain lines elsewhere."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from exporters.ladder.budget import Budget
from exporters.ladder.course import Course
from exporters.ladder.plan import Plan, Step
from exporters.ladder.sample import Phase

__all__ = ["Progress"]

_REWRITE_S, _PLAIN_S = 0.2, 10.0
_WIDTH = 110


class Progress:
    """Told of each request, it speaks no more often than a person reads."""

    def __init__(
        self,
        plan: Plan,
        *,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out if out is not None else sys.stderr
        self._clock, self._rewrites = clock, self._out.isatty()
        self._rounds = plan.rounds
        self._expected = len(plan.closed) + len(plan.open)
        self._expected += len(plan.rate_shares) * len(plan.shapes)
        self._took_s: dict[Step, float] = {}
        self._done = 0
        self._spoke_s = self._began_s = clock()
        self._step: Step | None = None
        self._course: Course | None = None
        self._budget: Budget | None = None
        self._round = 1

    def expect(self, steps: Sequence[Step]) -> None:
        """These are all the steps of a round."""
        self._expected = len(steps)

    def begin(self, step: Step, number: int, course: Course, budget: Budget) -> None:
        self._step, self._course, self._budget, self._round = step, course, budget, number
        self._began_s = self._clock()
        self._speak()

    def tell(self) -> None:
        """A request ended."""
        often_s = _REWRITE_S if self._rewrites else _PLAIN_S
        if self._clock() - self._spoke_s >= often_s:
            self._speak()

    def end(self) -> None:
        """The run ended: its line stays."""
        if self._step is not None:
            self._took_s[self._step] = self._clock() - self._began_s
        self._done += 1
        self._speak(final=True)

    def _speak(self, *, final: bool = False) -> None:
        self._spoke_s = self._clock()
        line = self.line()
        if self._rewrites:
            width = min(shutil.get_terminal_size().columns - 1, _WIDTH)
            self._out.write(f"\r{line[:width]:<{width}}" + ("\n" if final else ""))
        else:
            self._out.write(f"{line}\n")
        self._out.flush()

    def line(self) -> str:
        """Where we are, how fast it goes, how long it may still take."""
        if self._step is None or self._course is None or self._budget is None:
            return ""
        where = f"{self._step.name}, run {self._round}/{self._rounds}"
        parts = [
            f"{where}: {self._course.judged}/{self._course.wanted} requests",
            self._pace(self._course),
        ]
        left_s = self._left_s()
        parts += [f"{_minutes(left_s)} left"] if left_s is not None else []
        parts += [f"${self._budget.spent:.2f}"] if self._budget.spent else []
        parts += [self._course.stopped] if self._course.stopped else []
        return ", ".join(parts)

    def _pace(self, course: Course) -> str:
        recent = [each for each in course.samples[-200:] if each.ok]
        failed = sum(not each.ok for each in course.samples if each.phase is not Phase.COOL_DOWN)
        if len(recent) < 2:
            return f"{failed} failed" if failed else "warming up"
        since_s = min(each.sent_at_s for each in recent)
        span_s = max(max(each.ended_at_s for each in recent) - since_s, 1e-9)
        tokens_hz = sum(each.tokens for each in recent) / span_s
        pace = f"{len(recent) / span_s:.3g} req/s, {tokens_hz:.3g} tokens/s"
        return f"{pace}, {failed} failed" if failed else pace

    def _left_s(self) -> float | None:
        """A step that was run takes what it took; one that was not, what the last one took."""
        if not self._took_s:
            return None
        latest_s = list(self._took_s.values())[-1]
        known_s = sum(self._took_s.values())
        whole_s = known_s + latest_s * max(self._expected - len(self._took_s), 0)
        left = self._expected * self._rounds - self._done
        return whole_s / max(self._expected, 1) * max(left, 0)


def _minutes(span_s: float) -> str:
    whole = round(span_s)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
