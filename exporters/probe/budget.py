"""What probing costs: rates, tokens and dollars of a calendar month, remembered across restarts.

The most that a probe can cost is booked and on disk before it is sent, and corrected afterwards:
a process that dies in between has counted too much, never too little.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from domain.errors import ConfigError
from exporters.probe.exchange import Exchange
from exporters.probe.settings import ProbeTarget

__all__ = ["Booking", "BooksError", "Budget", "Spent"]

_MILLION = 1_000_000
_HOUR_S = 3600.0
_PROMPT_SLACK = 32  # a chat template's own tokens
_WORD_TOKENS = 2  # no common tokenizer makes more of our words


class BooksError(ConfigError):
    """What was spent cannot be read or written: without that nothing may be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one target cost in one month."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def usd(self, target: ProbeTarget) -> float | None:
        """None without prices: not known is not nothing."""
        prices = target.input_usd_per_million, target.output_usd_per_million
        if prices[0] is None or prices[1] is None:
            return None
        return (self.input_tokens * prices[0] + self.output_tokens * prices[1]) / _MILLION

    def plus(self, other: Spent) -> Spent:
        return Spent(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def minus(self, other: Spent) -> Spent:
        return Spent(
            input_tokens=max(self.input_tokens - other.input_tokens, 0),
            output_tokens=max(self.output_tokens - other.output_tokens, 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """What was set aside for one probe, and in which month."""

    key: str
    month: str
    most: Spent


class Budget:
    """The books of all targets, on disk; several processes may keep them together."""

    def __init__(self, path: Path, zone: str) -> None:
        self._path, self._zone = path, ZoneInfo(zone)
        self._sent: dict[str, deque[float]] = {}
        _read(path)

    def spent(self, target: ProbeTarget, now: datetime) -> Spent:
        """What this month has cost so far."""
        return self._books(now).spent.get(_key(target), Spent())

    def refusal(self, target: ProbeTarget, now: datetime) -> str:
        """Why the next probe would be too much; empty when it is not."""
        spent, most = self.spent(target, now), _most(target)
        would = spent.plus(most)
        until = f"no probe until the month ends in {self._zone}"
        usd = would.usd(target)
        if target.month_usd is not None and (usd is None or usd > target.month_usd):
            said = f"this month's {target.month_usd:g} US dollars are spent"
            return f"{said} ({spent.usd(target):.4g}, and one may cost {most.usd(target):.2g}): {until}"
        if target.month_tokens is not None and would.tokens > target.month_tokens:
            return f"this month's {target.month_tokens} tokens are used: {until}"
        sent = self._sent.get(_key(target), deque())
        while sent and sent[0] <= now.timestamp() - _HOUR_S:
            sent.popleft()
        if len(sent) >= target.hour_probes:
            return f"{target.hour_probes} probes were sent within the hour: no more for now"
        return ""

    def book(self, target: ProbeTarget, now: datetime) -> Booking:
        """Set aside what a probe costs at most."""
        key, most = _key(target), _most(target)
        self._sent.setdefault(key, deque()).append(now.timestamp())
        with self._locked():
            books = self._books(now)
            self._write(books.with_spent(key, books.spent.get(key, Spent()).plus(most)))
        return Booking(key=key, month=books.month, most=most)

    def settle(self, booking: Booking, exchange: Exchange) -> Spent:
        """Replace what was set aside by what it was; the tokens of this probe."""
        actual = _actual(booking.most, exchange)
        with self._locked():
            books = _read(self._path)
            if booking.month == books.month:  # what was asked last month stays there
                held = books.spent.get(booking.key, Spent()).minus(booking.most)
                self._write(books.with_spent(booking.key, held.plus(actual)))
        return actual

    def _books(self, now: datetime) -> _Books:
        """As they are on disk, or empty ones of a new month."""
        books, month = _read(self._path), now.astimezone(self._zone).strftime("%Y-%m")
        # why not backwards: a clock that is set back must not give a month's money again
        return books if month <= books.month else _Books(month=month, spent={})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, of all threads and processes."""
        lock = self._path.with_name(f".{self._path.name}.lock")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("w")
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, books: _Books) -> None:
        """Whole or not at all, and there when the power fails."""
        told = {
            "month": books.month,
            "targets": {
                key: {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
                for key, spent in sorted(books.spent.items())
            },
        }
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            with new.open("w") as file:
                json.dump(told, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise _cannot_write(self._path, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Books:
    """One month of all targets."""

    month: str
    spent: Mapping[str, Spent]

    def with_spent(self, key: str, spent: Spent) -> _Books:
        return replace(self, spent={**self.spent, key: spent})


def _cannot_write(path: Path, error: OSError) -> BooksError:
    return BooksError(
        f"what was spent cannot be written: {error.strerror}",
        where=f"state_file {path}",
        remedy="Give a file in a directory that can be written to; nothing is asked before.",
    )


def _key(target: ProbeTarget) -> str:
    return ",".join(f"{name}={value}" for name, value in target.series)


def _most(target: ProbeTarget) -> Spent:
    return Spent(
        input_tokens=target.prompt_words * _WORD_TOKENS + _PROMPT_SLACK,
        output_tokens=target.max_tokens,
    )


def _actual(most: Spent, exchange: Exchange) -> Spent:
    """What the answer says; what it does not say counts as set aside, unless nothing was served."""
    if exchange.sent_at_ns is None or exchange.status not in (None, 200):
        return Spent()
    told = exchange.prompt_tokens, exchange.output_tokens
    actual = most
    if told[0] is not None:
        actual = replace(actual, input_tokens=told[0])
    if told[1] is not None:
        actual = replace(actual, output_tokens=told[1])
    return actual


def _read(path: Path) -> _Books:
    try:
        told = json.loads(path.read_text())
        spent = {str(key): _spent(value) for key, value in told["targets"].items()}
        month = told["month"]
        datetime.strptime(month, "%Y-%m")  # noqa: DTZ007 - only its form
    except FileNotFoundError:
        return _Books(month="", spent={})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BooksError(
            f"what was spent this month cannot be read: {error!r}",
            where=f"state_file {path}",
            remedy="Mend it, or delete it to begin the month's count anew.",
        ) from error
    return _Books(month=month, spent=spent)


def _spent(value: Mapping[str, Any]) -> Spent:
    numbers = value["input_tokens"], value["output_tokens"]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ValueError(f"{value} are no tokens")
    return Spent(input_tokens=numbers[0], output_tokens=numbers[1])
