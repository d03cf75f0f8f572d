"""One board and its MIG instances as readings: whatever fails costs only itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from exporters.gpu.activity import Activity
from exporters.gpu.failure import DRIVER_GONE, GPU_GONE, LASTING, NOTHING_NOW
from exporters.gpu.instances import Instances
from exporters.gpu.nvml import FieldBatch, Nvml, Unavailable
from exporters.gpu.processes import Processes
from exporters.gpu.questions import FAST, FAST_FIELDS, SLOW, SLOW_FIELDS, Field, Question
from exporters.gpu.sound import RELATIVE, Suspicion, is_sound

__all__ = ["Board", "Sheet"]

SLOW_EVERY_S: Final = 10.0
_ASK_AGAIN_S: Final = 600.0
_WAKING_S: Final = 5.0
_LONGEST_GAP_S: Final = 10.0
_WAKING_FIELDS: Final = ("gpu_busy", "gpu_memory_busy", "gpu_power")


@dataclass(slots=True)
class Sheet:
    """One reading of one board or instance while it is written."""

    levels: dict[str, float] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    beside: Mapping[str, float] = field(default_factory=dict)
    """Levels that were read before, which the new ones are judged by."""

    def put(self, values: Mapping[str, float]) -> None:
        """Take in what is sound; count and leave out what is not."""
        # why not always: of thirty questions two have readings that others judge
        alone = RELATIVE.isdisjoint(values)
        known = values if alone else {**self.beside, **self.levels, **values}
        for key, value in values.items():
            name = key.removeprefix("total:")
            if not is_sound(key, value, known):
                self.rejected[name.partition("/")[0]] += 1
                self.absent[name.partition("/")[0]] = "rejected"
            elif name is key:
                self.levels[key] = float(value)
            else:
                self.totals[name] = float(value)

    def add(self, other: Sheet) -> None:
        """What was read less often; what was rejected then is counted once."""
        self.levels = {**other.levels, **self.levels}
        self.totals = {**other.totals, **self.totals}
        self.absent = {**other.absent, **self.absent}
        self.rejected.update(other.rejected)
        other.rejected.clear()

    def plain(self) -> dict[str, Any]:
        """As it travels to the parent."""
        return {
            "levels": self.levels,
            "totals": self.totals,
            "absent": self.absent,
            "rejected": dict(self.rejected),
        }


class Board:
    """Asks one GPU. Questions it cannot answer are left out, and asked again every ten minutes."""

    def __init__(self, nvml: Nvml, uuid: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self.uuid = uuid
        self.asking = ""
        """Which question is open; what a hang is named after."""
        self.activity_off = ""
        """Why the performance counters are left alone; empty when they are read."""
        self._nvml = nvml
        self._now = now
        self._handle: Any = None
        self._handle_at_s = now()
        self._lasting: dict[str, str] = {}
        self._lasting_until_s = 0.0
        self._slow = Sheet()
        self._slow_at_s = -SLOW_EVERY_S
        self._batches = {"fast": _Batch(nvml, FAST_FIELDS), "slow": _Batch(nvml, SLOW_FIELDS)}
        self._activity = Activity(nvml)
        self._instances = Instances(nvml)
        self._processes = Processes(nvml)
        self._suspicion = Suspicion()
        self._energy = _Energy()

    def read(self) -> dict[str, Any]:
        """One reading, or why there is none: `down` is then the word."""
        begun_s = self._now()
        if begun_s >= self._lasting_until_s:
            self._lasting.clear()
            self._lasting_until_s = begun_s + _ASK_AGAIN_S
        try:
            self._hold()
            sheet, pids, instances = self._sheet(begun_s)
        except Unavailable as gone:
            self._let_go()
            return {"down": gone.reason, "call": self.asking}
        finally:
            self.asking = ""
        return {**sheet.plain(), "pids": pids, "instances": instances}

    def handle(self) -> Any:
        """The driver's handle, for what lies beside a reading. Raises Unavailable."""
        self._hold()
        return self._handle

    def _hold(self) -> None:
        self.asking = "handle"
        if self._handle is None:
            self._handle = self._nvml.ask("nvmlDeviceGetHandleByUUID", self.uuid)
            self._handle_at_s = self._now()

    def _let_go(self) -> None:
        """Handles and what was learned by them may be stale: begin anew."""
        self._handle = None
        self._instances = Instances(self._nvml)
        self._learn_anew()

    def _learn_anew(self) -> None:
        self._slow_at_s = -SLOW_EVERY_S
        self._lasting.clear()
        self._activity = Activity(self._nvml)

    def _sheet(self, begun_s: float) -> tuple[Sheet, list[int], list[dict[str, Any]]]:
        sheet = Sheet()
        instances = self._ask_instances(sheet)
        if begun_s - self._slow_at_s >= SLOW_EVERY_S:
            self._slow = Sheet()
            self._ask_all(SLOW, self._slow)
            self._ask_fields("slow", self._slow)
            self._slow_at_s = begun_s
        sheet.beside = self._slow.levels
        self._ask_all(FAST, sheet)
        self._ask_fields("fast", sheet)
        self._ask_activity(sheet)
        pids = self._ask_processes(sheet)
        if not sheet.levels:
            raise Unavailable(_first(sheet.absent))
        sheet.add(self._slow)
        self._mend(sheet, begun_s)
        return sheet, pids, instances

    def _ask_all(self, questions: Iterable[Question], sheet: Sheet) -> None:
        for question in questions:
            if question.name in self._lasting:
                sheet.absent[question.name] = self._lasting[question.name]
                continue
            self.asking = question.name
            try:
                sheet.put(question.ask(self._nvml, self._handle))
            except Unavailable as missing:
                self._note(question.name, missing.reason, sheet)

    def _note(self, name: str, reason: str, sheet: Sheet) -> None:
        """One field is missing; if the whole board is, that is for the caller."""
        if reason in GPU_GONE or reason in DRIVER_GONE:
            raise Unavailable(reason)
        if reason in LASTING:
            self._lasting[name] = reason
        if reason not in NOTHING_NOW:
            sheet.absent[name] = reason

    def _ask_fields(self, which: str, sheet: Sheet) -> None:
        self.asking = f"{which} field values"
        batch = self._batches[which]
        try:
            values, absent = batch.read(self._handle, self._lasting)
        except Unavailable as missing:
            for one in batch.fields:
                self._note(one.key, missing.reason, sheet)
            return
        sheet.put(values)
        for key, reason in absent.items():
            self._note(key, reason, sheet)

    def _ask_activity(self, sheet: Sheet) -> None:
        if self.activity_off:
            sheet.absent["gpu_activity"] = self.activity_off
        elif "gpu_activity" in self._lasting:
            sheet.absent["gpu_activity"] = self._lasting["gpu_activity"]
        elif not self._instances.on:
            self.asking = "gpu_activity"
            try:
                sheet.put(self._activity.read(self._handle))
            except Unavailable as missing:
                self._activity = Activity(self._nvml)
                self._note("gpu_activity", missing.reason, sheet)

    def _ask_processes(self, sheet: Sheet) -> list[int]:
        self.asking = "gpu_processes"
        try:
            held = self._processes.read(self._handle, sheet.levels.get("gpu_memory_total"))
        except Unavailable as missing:
            self._note("gpu_processes", missing.reason, sheet)
            return []
        sheet.levels["gpu_processes"] = float(len(held))
        known = [one.bytes for one in held if one.bytes is not None]
        if len(known) == len(held):
            sheet.levels["gpu_process_memory"] = float(sum(known))
        return [one.pid for one in held]

    def _mend(self, sheet: Sheet, begun_s: float) -> None:
        """What follows from the readings together: energy, waking, suspicion."""
        if "gpu_energy" not in sheet.totals and "gpu_power" in sheet.levels:
            joules = self._energy.add(sheet.levels["gpu_power"], begun_s)
            sheet.totals["gpu_energy/power_integral"] = joules
        asleep = sheet.levels.get("gpu_persistence_mode") == 0
        if asleep and begun_s - self._handle_at_s < _WAKING_S:
            for key in _WAKING_FIELDS:  # why: the question itself woke the board
                if sheet.levels.pop(key, None) is not None:
                    sheet.absent[key] = "waking"
        for word in self._suspicion.add(sheet.levels):
            sheet.levels[f"gpu_reading_suspect/{word}"] = 1.0
            if word == "activity_zero":
                self._activity = Activity(self._nvml)

    def _ask_instances(self, into: Sheet) -> list[dict[str, Any]]:
        self.asking = "gpu_instances"
        read, was_on = [], self._instances.on
        try:
            for one in self._instances.present(self._handle):
                sheet = Sheet()
                sheet.absent.update(
                    one.ask(sheet.put, self._handle, activity=not self.activity_off)
                )
                read.append({**one.identity(), **sheet.plain(), "pids": one.pids})
        except Unavailable as missing:
            self._note("gpu_instances", missing.reason, into)
        if self._instances.on != was_on:  # another board, as far as its answers go
            self._learn_anew()
        return read


class _Batch:
    """Field values in one call; those that the board does not have are taken out of it."""

    def __init__(self, nvml: Nvml, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self._nvml = nvml
        self._asked: tuple[Field, ...] = ()
        self._batch: FieldBatch | None = None

    def read(
        self, handle: Any, lasting: Mapping[str, str]
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Values by key, `total:` before totals; and the word for each that is missing."""
        absent = {one.key: lasting[one.key] for one in self.fields if one.key in lasting}
        asked = tuple(one for one in self.fields if one.key not in lasting)
        if not asked:
            return {}, absent
        if asked != self._asked or self._batch is None:
            self._asked = asked
            self._batch = FieldBatch(self._nvml, [(one.number, one.scope) for one in asked])
        values = {}
        for one, found in zip(asked, self._batch.read(handle), strict=True):
            if isinstance(found, str):
                absent[one.key] = found
            else:
                values[f"total:{one.key}" if one.total else one.key] = found * one.scale
        return values, absent


class _Energy:
    """Power summed up over time, for boards without a counter of their own."""

    def __init__(self) -> None:
        self._joules = 0.0
        self._last: tuple[float, float] | None = None

    def add(self, watts: float, at_s: float) -> float:
        """Joules since the first reading; nothing is made up for a gap."""
        if self._last is not None and at_s - self._last[0] <= _LONGEST_GAP_S:
            self._joules += (watts + self._last[1]) / 2 * (at_s - self._last[0])
        self._last = (at_s, watts)
        return self._joules


def _first(absent: Mapping[str, str]) -> str:
    """The word for a board of which nothing is known: the first that is not a lasting one."""
    return next((word for word in absent.values() if word not in LASTING), "no_readings")
