"""GPUs as a page needs them: what each is, does and did, and the state that follows from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from collector.query import NumberPoint, Reader, Selection, Window
from dashboard.theme import State
from domain.labels import Labels, value_of
from domain.throttle import FACILITY, HARMFUL, throttle_shares, worst_of

__all__ = ["Board", "Moment", "Sight", "boards", "node_troubles", "step_s"]

_NOW_S = 120
_RECENT_S = 300
_FINEST_S = 10
_COLUMNS = 60
_HELD = 0.2
_HELD_BY_THE_FACILITY = 0.05
_AT_WORK = 0.01
_LEVELS = (
    *("gpu_up", "gpu_busy", "gpu_sm_active", "gpu_memory_used", "gpu_memory_total", "gpu_power"),
    *("gpu_power_limit", "gpu_temperature", "gpu_recovery_action", "gpu_row_remap_failure"),
    *("gpu_ecc_uncorrected", "gpu_index"),
)


class Sight(StrEnum):
    """Whether a GPU was seen at a moment."""

    UP = "up"
    DOWN = "does not answer"
    NOT_OBSERVED = "not observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step: how much a GPU worked, and for which share of it its clocks were held down."""

    sight: Sight
    work: float | None = None
    held: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU or MIG instance. None is what nobody told."""

    uuid: str
    name: str = ""
    node: str = ""
    parent: str = ""
    reason: str = ""
    now: Mapping[str, float] = field(default_factory=dict)
    cause: str = ""
    held: float = 0.0
    xids: Mapping[str, int] = field(default_factory=dict)
    serves: tuple[tuple[str, str], ...] = ()
    moments: Sequence[Moment] = ()

    @property
    def work(self) -> float | None:
        """Activity where it is told; else utilisation, which proves no work."""
        return self.now.get("gpu_sm_active", self.now.get("gpu_busy"))

    @property
    def index(self) -> int | None:
        found = self.now.get("gpu_index")
        return None if found is None else round(found)

    @property
    def standing(self) -> tuple[State, str]:
        """The state, and the word for it."""
        if self.parent:
            return State.HEALTHY, "part of a GPU"
        if "gpu_up" not in self.now:
            return State.NOT_OBSERVED, "not observed"
        if self.now["gpu_up"] < 1:
            word = self.reason.removeprefix("gpu_").replace("_", " ")
            return State.PAGE, word or "does not answer"
        return self._hardware() or self._pace()

    def _hardware(self) -> tuple[State, str] | None:
        if self.now.get("gpu_row_remap_failure"):
            return State.PAGE, "memory is broken"
        if self.now.get("gpu_recovery_action"):
            return State.PAGE, "needs a reset"
        if self.now.get("gpu_ecc_uncorrected"):
            return State.TICKET, "memory errors"
        return None

    def _pace(self) -> tuple[State, str]:
        least = _HELD_BY_THE_FACILITY if self.cause in FACILITY else _HELD
        if self.held >= least:
            return State.TICKET, "held down"
        if self.work is None:
            return State.HEALTHY, "answers"
        return (State.HEALTHY, "works") if self.work >= _AT_WORK else (State.NO_TRAFFIC, "idle")


def step_s(window: Window) -> int:
    """Sixty columns at most, of whole tens of seconds."""
    length_s = window.until_s - window.since_s
    return max(-(-length_s // _COLUMNS // _FINEST_S) * _FINEST_S, _FINEST_S)


def boards(reader: Reader, window: Window) -> list[Board]:
    """All that were heard of in the window: trouble first, then by node and place."""
    infos = _labels(reader, "gpu_info", window, "gpu_uuid", "gpu_name", "node", "gpu_parent")
    serves = _labels(reader, "gpu_serves", window, "gpu_uuid", "service", "replica")
    now = _now(reader, window)
    held, xids = _held(reader, window), _counted(reader, "gpu_xid_errors", window)
    reasons = {
        value_of(own, "gpu_uuid"): value_of(own, "reason")
        for own in _labels(reader, "gpu_down", _last(window, _NOW_S), "gpu_uuid", "reason")
    }
    moments = _moments(reader, window)
    known = {value_of(own, "gpu_uuid"): own for own in infos}
    found = [
        _board(uuid, known.get(uuid, ()), now.get(uuid, {}), reasons.get(uuid, ""))
        for uuid in {*known, *now}
    ]
    return sorted((_with_history(each, held, xids, serves, moments) for each in found), key=_order)


def node_troubles(reader: Reader, window: Window) -> list[tuple[str, str]]:
    """Nodes whose driver does not answer now, and why."""
    lately = _last(window, _NOW_S)
    up = reader.numbers("gpu_driver_up", Selection(window=lately, by=("node",)))
    down = {value_of(each.labels, "node") for each in up if each.points[-1].last < 1}
    reasons = _labels(reader, "gpu_driver_down", lately, "node", "reason")
    said = {value_of(own, "node"): value_of(own, "reason") for own in reasons}
    return [(node, said.get(node, "no word")) for node in sorted(down)]


def _board(uuid: str, own: Labels, now: Mapping[str, float], reason: str) -> Board:
    return Board(
        uuid=uuid,
        name=value_of(own, "gpu_name"),
        node=value_of(own, "node"),
        parent=value_of(own, "gpu_parent"),
        now=now,
        reason=reason,
    )


def _with_history(
    board: Board,
    held: Mapping[str, Mapping[str, float]],
    xids: Mapping[str, Mapping[str, int]],
    serves: Iterable[Labels],
    moments: Mapping[str, Sequence[Moment]],
) -> Board:
    worst = worst_of({board.uuid: held.get(board.uuid, {})})
    return Board(
        uuid=board.uuid,
        name=board.name,
        node=board.node,
        parent=board.parent,
        now=board.now,
        reason=board.reason,
        cause=worst.cause if worst is not None else "",
        held=worst.share if worst is not None else 0.0,
        xids=xids.get(board.uuid, {}),
        serves=tuple(
            (value_of(own, "service"), value_of(own, "replica"))
            for own in serves
            if value_of(own, "gpu_uuid") == board.uuid
        ),
        moments=moments.get(board.uuid, ()),
    )


def _order(board: Board) -> tuple[int, str, int, str, str]:
    """An instance stands with its board."""
    rank = list(State).index(board.standing[0]) if not board.parent else len(State)
    place = board.index if board.index is not None else 1_000_000
    return rank, board.node, place, board.parent, board.uuid


def _last(window: Window, length_s: int) -> Window:
    return Window(since_s=max(window.until_s - length_s, window.since_s), until_s=window.until_s)


def _labels(reader: Reader, metric: str, window: Window, *by: str) -> list[Labels]:
    return [each.labels for each in reader.numbers(metric, Selection(window=window, by=by))]


def _now(reader: Reader, window: Window) -> dict[str, dict[str, float]]:
    """The newest of each level by GPU; nothing where that is older than two minutes."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    asked = Selection(window=_last(window, _NOW_S), by=("gpu_uuid",))
    for metric in _LEVELS:
        for each in reader.numbers(metric, asked):
            if uuid := value_of(each.labels, "gpu_uuid"):
                found[uuid][metric] = each.points[-1].last
    return found


def _by_gpu(
    reader: Reader, metric: str, window: Window, step: int, *also: str
) -> Iterator[tuple[Labels, dict[int, NumberPoint]]]:
    """By series the point of each column; where only coarse tiles are kept, one fills several."""
    asked = Selection(window=window, by=("gpu_uuid", *also), step_s=step)
    first = window.since_s // step
    for each in reader.numbers(metric, asked):
        columns = {}
        for point in each.points:
            begin, end = point.since_s // step, -(-point.until_s // step)
            columns.update(dict.fromkeys(range(begin - first, end - first), point))
        yield each.labels, columns


def _held(reader: Reader, window: Window) -> dict[str, dict[str, float]]:
    """By GPU and cause the share of the last five minutes, of those that were observed."""
    lately = _last(window, _RECENT_S)
    seen = {
        value_of(labels, "gpu_uuid"): len(columns) * _FINEST_S
        for labels, columns in _by_gpu(reader, "gpu_up", lately, _FINEST_S)
    }
    grown: defaultdict[str, dict[str, float]] = defaultdict(dict)
    asked = Selection(window=lately, by=("gpu_uuid", "reason"))
    for each in reader.numbers("gpu_throttle", asked):
        uuid, cause = value_of(each.labels, "gpu_uuid"), value_of(each.labels, "reason")
        if cause in HARMFUL:
            grown[uuid][cause] = each.points[-1].value
    return {
        uuid: dict(throttle_shares(by_cause, seen.get(uuid, 0))) for uuid, by_cause in grown.items()
    }


def _counted(reader: Reader, metric: str, window: Window) -> dict[str, dict[str, int]]:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for each in reader.numbers(metric, Selection(window=window, by=("gpu_uuid", "reason"))):
        count = round(sum(point.value for point in each.points))
        if count:
            found[value_of(each.labels, "gpu_uuid")][value_of(each.labels, "reason")] = count
    return found


def _moments(reader: Reader, window: Window) -> dict[str, list[Moment]]:
    """Columns in order, none left out: where nobody looked, that is what it says."""
    step = step_s(window)
    work: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for metric in ("gpu_busy", "gpu_sm_active"):  # activity goes before utilisation
        for labels, columns in _by_gpu(reader, metric, window, step):
            values = {place: point.value for place, point in columns.items()}
            work[value_of(labels, "gpu_uuid")].update(values)
    held = _held_by_column(reader, window, step)
    count = -(-window.until_s // step) - window.since_s // step
    found = {}
    for labels, up in _by_gpu(reader, "gpu_up", window, step):
        uuid = value_of(labels, "gpu_uuid")
        row = [
            _moment(up.get(place), work[uuid].get(place), held.get((uuid, place), 0.0))
            for place in range(count)
        ]
        found[uuid] = row if row[-1].sight is not Sight.NOT_OBSERVED else row[:-1]
    return found


def _held_by_column(reader: Reader, window: Window, step: int) -> dict[tuple[str, int], float]:
    """The share of each column for which the worst of the causes held; they overlap."""
    held: defaultdict[tuple[str, int], float] = defaultdict(float)
    for labels, columns in _by_gpu(reader, "gpu_throttle", window, step, "reason"):
        if value_of(labels, "reason") not in HARMFUL:
            continue
        for place, point in columns.items():
            share = min(point.value / (point.until_s - point.since_s), 1.0)
            where = (value_of(labels, "gpu_uuid"), place)
            held[where] = max(held[where], share)
    return held


def _moment(up: NumberPoint | None, work: float | None, held: float) -> Moment:
    if up is None:
        return Moment(sight=Sight.NOT_OBSERVED)
    if up.low < 1:
        return Moment(sight=Sight.DOWN)
    return Moment(sight=Sight.UP, work=work, held=held)
