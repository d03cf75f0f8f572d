"""When the review is due, and how far it is: a cron line by the clock of a zone, and a file that remembers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final
from zoneinfo import ZoneInfo

from domain.errors import ConfigError, InputError, StoreError
from review.plain import built, plain

__all__ = ["Cron", "Standing", "Timetable"]

_MOST_BYTES: Final = 64 << 10
_LONGEST_GAP: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """`line`: minute hour day month weekday, by the clock of `zone`; clocks that change skip nothing."""

    line: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - of the server's

        try:
            CronSim(self.line, datetime.now(ZoneInfo(self.zone)))
        except (CronSimError, KeyError, ValueError, OSError) as error:
            raise ConfigError(
                f"{self.line!r} in {self.zone!r} is no schedule: {error}",
                where="review.cron, review.zone",
                remedy="Write it like 0 6 * * MON, and the zone like Europe/Berlin.",
            ) from error
        if len(self.line.split()) != 5:
            raise ConfigError(
                f"{self.line!r} has not five fields",
                where="review.cron",
                remedy="Write minute hour day month weekday, as in 0 6 * * MON.",
            )

    def after(self, at_s: float) -> float | None:
        """The first instant strictly after; None where none will come."""
        return self._next(at_s, back=False)

    def last(self, at_s: float) -> float | None:
        """The latest instant that is not after; None where there was none within a year."""
        return self._next(at_s + 1, back=True)

    def _next(self, at_s: float, *, back: bool) -> float | None:
        from cronsim import CronSim  # noqa: PLC0415 - of the server's

        local = datetime.fromtimestamp(at_s, UTC).astimezone(ZoneInfo(self.zone))
        found = next(CronSim(self.line, local, reverse=back), None)
        if found is None or abs(found - local) > _LONGEST_GAP:
            return None
        return found.timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`ran_for_s`: the due instant that was last seen to. `running`: what runs now, `done` of `of`.

    `failed`: why the last run gave no review; empty where it gave one, or none ran yet.
    """

    ran_for_s: float
    next_s: float | None = None
    running: str = ""
    done: int = 0
    of: int = 0
    failed: str = ""
    failed_at_s: float | None = None

    def says(self) -> str:
        """What runs, or why the last one failed; empty where neither."""
        if self.running:
            return f"running: {self.running}" + (f", {self.done} of {self.of}" if self.of else "")
        return f"the last scheduled review failed: {self.failed}" if self.failed else ""


class Timetable:
    """A file beside the reviews, so that a restart forgets nothing and every page can read it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "schedule.state"

    def read(self) -> Standing | None:
        """None where no schedule ever ran. What cannot be read is an error that names the file."""
        try:
            with self._path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(error) from error
        try:
            found = built(Standing, json.loads(text), where=str(self._path))
        except (ValueError, InputError) as error:
            raise self._error(error) from error
        return found if isinstance(found, Standing) else None

    def write(self, standing: Standing) -> None:
        """There whole or not at all."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(
                "w", dir=self._path.parent, delete=False, encoding="utf-8"
            ) as file:
                file.write(json.dumps(plain(standing), ensure_ascii=False))
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._path)
        except OSError as error:
            raise self._error(error) from error

    def begin(self, cron: Cron, now_s: float) -> Standing:
        """What is known; where nothing is, all until now counts as seen to. No run outlives a process."""
        known = self.read() or Standing(ran_for_s=cron.last(now_s) or now_s)
        standing = replace(known, running="", done=0, of=0, next_s=cron.after(now_s))
        self.write(standing)
        return standing

    def _error(self, error: Exception) -> StoreError:
        return StoreError(
            f"it cannot be read or written: {error}",
            where=str(self._path),
            remedy="Check disk and rights, or remove it: it only remembers the last run.",
        )
