"""XIDs that the driver writes into the kernel's log, for where its events do not come.

Some never come as events (79: the GPU is gone; 119: its firmware is), and some drivers give none.
Records are bytes of anybody's making: only those of the kernel itself are believed (it marks what
programs write), nothing but address and number is taken, and only GPUs that we know are told of.
"""

from __future__ import annotations

import logging
import os
import re
import select
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from exporters.gpu.fleet import Fleet

__all__ = ["PLACE", "KernelLog", "Xid", "bus_of", "xid_in"]

_LOG = logging.getLogger(__name__)
PLACE: Final = Path("/dev/kmsg")
_LONGEST: Final = 8192  # of a record, as the kernel limits it
_WAIT_S: Final = 1.0
_LOOK_AGAIN_S: Final = 60.0
_KERNEL: Final = 0  # the facility that no program can write as
_OLDEST_S: Final = 60.0

_XID = re.compile(
    rb"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.0)?"
    rb"(?: GPU-I:\d{1,3})?\): (\d{1,4})\b"
)
_HEAD = re.compile(rb"(\d{1,4}),\d{1,20},(\d{1,19}),")

Bus = tuple[int, int, int]
"""Domain, bus and device on PCI, however many digits somebody writes."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One record: which device, which number, and microseconds of the kernel's own clock."""

    bus: Bus
    number: int
    at_us: int


def xid_in(record: bytes) -> Xid | None:
    """From one record, `priority,sequence,microseconds,flags;text`; None if it is none of those."""
    head, found, text = record[:_LONGEST].partition(b";")
    told, said = _HEAD.match(head), _XID.match(text)
    if not found or told is None or said is None or int(told[1]) >> 3 != _KERNEL:
        return None
    domain, bus, device = (int(said[place], 16) for place in (1, 2, 3))
    return Xid((domain, bus, device), int(said[4]), int(told[2]))


def bus_of(name: str) -> Bus | None:
    """As the driver writes it: `00000000:3B:00.0`."""
    parts = name.partition(".")[0].split(":")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return domain, bus, device


class KernelLog:
    """Follows the log from now on, in a thread of its own."""

    def __init__(self, fleet: Fleet, mode: str, place: Path = PLACE) -> None:
        self._fleet, self._mode, self._place = fleet, mode, place
        self._complained = False

    def run(self, stop: Event) -> None:
        """Until `stop`. It is not even opened while every GPU gives its events, unless told to."""
        while self._mode != "off" and not stop.is_set():
            if self._wanted():
                self._follow(stop)
            stop.wait(_WAIT_S if not self._complained else _LOOK_AGAIN_S)

    def _wanted(self) -> dict[Bus, str]:
        """The GPUs whose XIDs are looked for here."""
        with self._fleet.lock:
            return {
                bus: gpu.id
                for gpu in self._fleet.gpus.values()
                if (self._mode == "on" or gpu.labels.get("events"))
                and (bus := bus_of(gpu.labels.get("pci_bus_id", ""))) is not None
            }

    def _follow(self, stop: Event) -> None:
        try:
            descriptor = os.open(self._place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if not self._complained:
                _LOG.info("XIDs are not read from %s: %s", self._place, error.strerror)
            self._complained = True
            return
        self._complained = False
        try:
            _to_the_end(descriptor)
            while not stop.is_set() and (wanted := self._wanted()):
                for message in _messages(_records(descriptor), wanted):
                    self._fleet.take(message, time.monotonic())
        finally:
            os.close(descriptor)


def _to_the_end(descriptor: int) -> None:
    """What was there before us was counted before us, or by nobody; it is not of now."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):  # a pipe has no end to go to
        os.lseek(descriptor, 0, os.SEEK_END)


def _records(descriptor: int) -> Iterator[bytes]:
    """What comes within a moment. Records that were overwritten before we came are passed over."""
    readable, _, _ = select.select([descriptor], [], [], _WAIT_S)
    while readable:
        try:
            read = os.read(descriptor, _LONGEST)
        except BlockingIOError:
            return
        except BrokenPipeError:
            continue
        except OSError as error:
            _LOG.warning("the kernel's log cannot be read: %s", error.strerror)
            time.sleep(_WAIT_S)
            return
        if not read:
            time.sleep(_WAIT_S)  # a pipe whose writer has gone
            return
        yield from read.split(b"\n")


def _messages(records: Iterator[bytes], wanted: Mapping[Bus, str]) -> Iterator[dict[str, Any]]:
    for record in records:
        found = xid_in(record)
        if found is not None and found.bus in wanted:
            yield {
                "kind": "event",
                "id": wanted[found.bus],
                "xid": found.number,
                "at_ns": _instant_ns(found.at_us),
                "source": "kernel_log",
            }


def _instant_ns(at_us: int) -> int:
    """The kernel's clock stands still while a machine sleeps: what cannot be is now."""
    now_ns = time.time_ns()
    ago_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - at_us * 1000
    return now_ns - ago_ns if 0 <= ago_ns <= _OLDEST_S * 1e9 else now_ns
