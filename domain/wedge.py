"""A wedged engine: requests run, no token comes, and the GPUs do nothing for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["FLAT_S", "GpuSign", "Wedge", "WedgeState", "gpu_sentence", "wedge"]

FLAT_S: Final = 60.0
"""No prompt and no output token for so long, while requests run, is not slow but stuck."""

_IDLE_FACTOR = 1.25
_IDLE_MARGIN_W = 3.0
_NOTHING = 0.01


class WedgeState(StrEnum):
    """What can be said."""

    NOTHING = "nothing"  # it works, or has nothing to do
    SUSPECT = "suspect"  # no tokens, but the GPUs work or say nothing
    WEDGED = "wedged"  # no tokens, and the GPUs confirm that nothing is computed
    UNKNOWN = "unknown"  # the engine does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSign:
    """One GPU of the engine now; None where it does not tell. Utilisation is no sign of work.

    `shared`: the power is that of a board of which the engine has a part (MIG).
    """

    power_w: float | None = None
    idle_power_w: float | None = None
    tensor_active: float | None = None
    dram_bandwidth: float | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wedge:
    """The verdict, with what speaks for it, against it, and what was not there to be asked."""

    state: WedgeState
    evidence: tuple[str, ...] = ()
    contra: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def wedge(
    *, requests_running: float | None, flat_s: float | None, gpus: Sequence[GpuSign]
) -> Wedge:
    """`flat_s`: since when neither prompt nor output tokens grew. All GPUs must be idle to confirm."""
    if requests_running is None or flat_s is None:
        absent = {"requests_running": requests_running, "tokens": flat_s}
        missing = tuple(name for name, value in absent.items() if value is None)
        return Wedge(state=WedgeState.UNKNOWN, missing=missing)
    if not (requests_running > 0 and flat_s >= FLAT_S):
        return Wedge(state=WedgeState.NOTHING)
    stuck = f"{requests_running:g} requests run and no token came for {flat_s:.0f} s"
    signs = {"power": [_idles(gpu) for gpu in gpus], "activity": [_rests(gpu) for gpu in gpus]}
    confirmed = [
        name for name, said in signs.items() if said and all(each is True for each in said)
    ]
    denied = [name for name, said in signs.items() if any(each is False for each in said)]
    return Wedge(
        state=WedgeState.WEDGED if confirmed else WedgeState.SUSPECT,
        evidence=(stuck, *(_SENTENCES[name] + _watts(name, gpus) for name in confirmed)),
        contra=tuple(_CONTRA[name] for name in denied),
        missing=tuple(name for name in signs if name not in (*confirmed, *denied)),
    )


def gpu_sentence(found: Wedge) -> str:
    """What the GPUs of an engine that stands still say about it; empty where it does not stand still."""
    if found.state not in (WedgeState.WEDGED, WedgeState.SUSPECT):
        return ""
    told = [*found.evidence[1:], *(f"but {each}" for each in found.contra)]
    if not told:
        return f"What its GPUs do is not told ({', '.join(found.missing)})."
    words = "; ".join(told).removeprefix("but ")
    return f"{words[0].upper()}{words[1:]}."


def _watts(name: str, gpus: Sequence[GpuSign]) -> str:
    """The worst of them, as far as they tell."""
    told = [(g.power_w, g.idle_power_w) for g in gpus if g.power_w is not None and g.idle_power_w]
    if name != "power" or not told:
        return ""
    power_w, idle_w = max(told)
    return f" ({power_w:.0f} W, at rest {idle_w:.0f} W)"


_SENTENCES: Final = {
    "power": "all its GPUs draw no more than when idle",
    "activity": "tensor cores and memory of all its GPUs rest",
}
_CONTRA: Final = {
    "power": "a GPU draws more power than when idle",
    "activity": "tensor cores or memory of a GPU are at work",
}


def _idles(gpu: GpuSign) -> bool | None:
    if gpu.power_w is None or gpu.idle_power_w is None:
        return None
    idles = gpu.power_w <= gpu.idle_power_w * _IDLE_FACTOR + _IDLE_MARGIN_W
    return True if idles else None if gpu.shared else False


def _rests(gpu: GpuSign) -> bool | None:
    if gpu.tensor_active is None or gpu.dram_bandwidth is None:
        return None
    return gpu.tensor_active <= _NOTHING and gpu.dram_bandwidth <= _NOTHING
