"""GPUs as a page needs them: the state of each and the word for it, and what held it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.query import Window
from dashboard.theme import State
from domain.gpu import Gpu, GpuReplica, Gpus, Sight
from domain.throttle import FACILITY, HARMFUL, worst_of
from domain.wedge import WedgeState

__all__ = ["Board", "Held", "boards", "held_down", "step_s", "words_of"]

_RECENT_S = 300
_FINEST_S = 10
_COLUMNS = 60
_HELD = 0.2
_HELD_BY_THE_FACILITY = 0.05
_LEAST = 0.01
_AT_WORK = 0.01
_LONGEST = 24  # of a reason that is none of ours
_WORDS = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hardware slowdown",
    "sw_thermal": "heat (software)",
    "hw_thermal": "heat (hardware)",
    "hw_power_brake": "power brake",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU or MIG instance; `cause` held it down for the share `held` of the last minutes."""

    gpu: Gpu
    cause: str = ""
    held: float = 0.0
    wedged: bool = False

    @property
    def now(self) -> Mapping[str, float]:
        return self.gpu.now

    @property
    def work(self) -> float | None:
        """Activity where it is told; else utilisation, which proves no work."""
        return self.now.get("gpu_sm_active", self.now.get("gpu_busy"))

    @property
    def standing(self) -> tuple[State, str]:
        """The state, and the word for it."""
        if self.gpu.up is None:
            return State.NOT_OBSERVED, "not observed"
        if self.gpu.parent:
            return State.HEALTHY, "part of a GPU"
        if not self.gpu.up:
            word = self.gpu.reason.removeprefix("gpu_").replace("_", " ")
            short = word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…"
            return State.PAGE, short or "does not answer"
        return self._hardware() or self._pace()

    def _hardware(self) -> tuple[State, str] | None:
        if self.now.get("gpu_row_remap_failure"):
            return State.PAGE, "memory is broken"
        if self.now.get("gpu_recovery_action"):
            return State.PAGE, "needs a reset"
        if self.wedged:
            return State.PAGE, "wedged"
        if self.now.get("gpu_ecc_uncorrected"):
            return State.TICKET, "memory errors"
        return None

    def _pace(self) -> tuple[State, str]:
        least = _HELD_BY_THE_FACILITY if self.cause in FACILITY else _HELD
        if self.held >= least:
            return State.TICKET, "held down"
        if self.gpu.straggles:
            return State.TICKET, "straggler"
        if self.work is None:
            return State.HEALTHY, "answers"
        return (State.HEALTHY, "works") if self.work >= _AT_WORK else (State.NO_TRAFFIC, "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One cause that held one GPU down, and for which share of the window."""

    gpu: Gpu
    cause: str
    share: float

    @property
    def seconds(self) -> float:
        return (self.gpu.held_s or {}).get(self.cause, 0.0)


def step_s(window: Window) -> int:
    """Sixty columns at most, of whole tens of seconds."""
    length_s = window.until_s - window.since_s
    return max(-(-length_s // _COLUMNS // _FINEST_S) * _FINEST_S, _FINEST_S)


def boards(found: Gpus, step: int) -> list[Board]:
    """All that were heard of: trouble first, then by node and place."""
    wedged = {uuid for each in found.replicas if _is_wedged(each) for uuid in each.gpus}
    made = [_board(gpu, step, wedged=gpu.uuid in wedged) for gpu in found.gpus]
    return sorted(made, key=_order)


def held_down(found: Gpus) -> list[Held]:
    """What held GPUs down in the window, the longest first."""
    every = [
        Held(gpu=gpu, cause=cause, share=share)
        for gpu in found.gpus
        for cause, share in gpu.shares.items()
        if cause in HARMFUL and share >= _LEAST
    ]
    return sorted(every, key=lambda each: (-each.share, each.gpu.uuid, each.cause))


def words_of(cause: str) -> str:
    """What a cause is called."""
    return _WORDS.get(cause, cause.replace("_", " "))


def _is_wedged(replica: GpuReplica) -> bool:
    return replica.wedge.state is WedgeState.WEDGED


def _board(gpu: Gpu, step: int, *, wedged: bool) -> Board:
    """`held` is of now, so that what is over for an hour is no trouble."""
    lately = [each for each in gpu.moments[-max(_RECENT_S // step, 1) :] if each.sight is Sight.UP]
    causes = {cause for each in lately for cause in each.held}
    shares = {c: sum(each.held.get(c, 0.0) for each in lately) / len(lately) for c in causes}
    worst = worst_of({gpu.uuid: shares})
    if worst is None:
        return Board(gpu=gpu, wedged=wedged)
    return Board(gpu=gpu, cause=worst.cause, held=worst.share, wedged=wedged)


def _order(board: Board) -> tuple[int, bool, str, int, str, str]:
    """What does not answer before what only works badly; an instance stands with its board."""
    gpu = board.gpu
    rank = list(State).index(board.standing[0]) if not gpu.parent else len(State)
    place = gpu.index if gpu.index is not None else 1_000_000
    return rank, gpu.up is not False, gpu.node, place, gpu.parent, gpu.uuid
