"""What is asked of a board and how often: each question one call, its answer in base units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from exporters.gpu.failure import LASTING
from exporters.gpu.nvml import ALL_LINKS, Nvml, Unavailable

__all__ = [
    "CAUSES",
    "FAST",
    "FAST_FIELDS",
    "SLOW",
    "SLOW_FIELDS",
    "Field",
    "Question",
    "causes_in",
    "memory",
]

Values = Mapping[str, float]
_MOST_LINKS = 36
_MEGA = 1e6
_HARMLESS = 0x1 | 0x2  # idle; application clocks, which no driver uses any more

CAUSES: Final = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clock",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bits of the clocks-event reasons that hold the clocks down."""


@dataclass(frozen=True, slots=True)
class Question:
    """`name` is what `field_unavailable` calls it; `answers` are the metrics that come of it."""

    name: str
    ask: Callable[[Nvml, Any], Values]


@dataclass(frozen=True, slots=True)
class Field:
    """One field value: its number and scope, the metric it is, and what one unit of it is."""

    key: str
    number: int
    scale: float = 1.0
    scope: int = 0
    total: bool = False


def _one(key: str, call: str, *arguments: Any, scale: float = 1.0, name: str = "") -> Question:
    def ask(nvml: Nvml, handle: Any) -> Values:
        return {key: nvml.ask(call, handle, *arguments) * scale}

    return Question(name or key, ask)


def _older(nvml: Nvml, new: str, old: str, handle: Any, *arguments: Any) -> Any:
    """The call that replaced another; drivers of the R470 age know only the old one."""
    try:
        return nvml.ask(new, handle, *arguments)
    except Unavailable as missing:
        if missing.reason not in LASTING:
            raise
        return nvml.ask(old, handle, *arguments)


def _utilisation(nvml: Nvml, handle: Any) -> Values:
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return {"gpu_busy": rates.gpu / 100, "gpu_memory_busy": rates.memory / 100}


def memory(nvml: Nvml, handle: Any) -> Values:
    """Total, reserved, used and free add up; an old driver counts reserved memory as used."""
    try:
        found = nvml.ask("nvmlDeviceGetMemoryInfo", handle, nvml.raw.nvmlMemory_v2)
    except Unavailable as missing:
        if missing.reason not in LASTING:
            raise
        found = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    values = {
        "gpu_memory_total": float(found.total),
        "gpu_memory_used": float(found.used),
        "gpu_memory_free": float(found.free),
    }
    if hasattr(found, "reserved"):
        values["gpu_memory_reserved"] = float(found.reserved)
    return values


def _throttled(nvml: Nvml, handle: Any) -> Values:
    reasons = _older(
        nvml,
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        handle,
    )
    active = causes_in(int(reasons))
    return {f"gpu_throttled/{cause}": float(cause in active) for cause in CAUSES.values()}


def causes_in(reasons: int) -> frozenset[str]:
    """The causes in a bit mask. A hardware slowdown is told only when no finer bit explains it."""
    if reasons & (0x40 | 0x80):
        reasons &= ~0x8
    return frozenset(cause for bit, cause in CAUSES.items() if reasons & bit & ~_HARMLESS)


def _temperature(nvml: Nvml, handle: Any) -> Values:
    found = _older(nvml, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", handle, 0)
    return {"gpu_temperature": float(found)}


def _limits(nvml: Nvml, handle: Any) -> Values:
    _, highest_mw = nvml.ask("nvmlDeviceGetPowerManagementLimitConstraints", handle)
    return {"gpu_power_limit_max": highest_mw / 1000}


def _ecc_mode(nvml: Nvml, handle: Any) -> Values:
    current, _ = nvml.ask("nvmlDeviceGetEccMode", handle)
    return {"gpu_ecc_mode": float(current)}


def _ecc(nvml: Nvml, handle: Any) -> Values:
    counts = [nvml.ask("nvmlDeviceGetTotalEccErrors", handle, kind, 0) for kind in (0, 1)]
    return {
        "gpu_ecc_uncorrected": float(counts[1]),
        "total:gpu_ecc_errors/corrected": float(counts[0]),
        "total:gpu_ecc_errors/uncorrected": float(counts[1]),
    }


def _remapped(nvml: Nvml, handle: Any) -> Values:
    corrected, uncorrected, pending, failure = nvml.ask("nvmlDeviceGetRemappedRows", handle)
    return {
        "gpu_rows_remapped/corrected": float(corrected),
        "gpu_rows_remapped/uncorrected": float(uncorrected),
        "gpu_row_remap_pending": float(bool(pending)),
        "gpu_row_remap_failure": float(bool(failure)),
    }


def _links(nvml: Nvml, handle: Any) -> Values:
    """How many NVLinks there are, and how many of them are up."""
    states = list(_link_states(nvml, handle))
    return {"gpu_nvlinks": float(len(states)), "gpu_nvlinks_active": float(sum(states))}


def _link_states(nvml: Nvml, handle: Any) -> Iterator[bool]:
    for link in range(_MOST_LINKS):
        try:
            yield nvml.ask("nvmlDeviceGetNvLinkState", handle, link) == 1
        except Unavailable as missing:
            if link and missing.reason in (
                "invalid_argument",
                "not_supported",
            ):  # past the last one
                return
            raise


def _fabric(nvml: Nvml, handle: Any) -> Values:
    raw = nvml.raw
    info = raw.c_nvmlGpuFabricInfoV_t()
    info.version = raw.nvmlGpuFabricInfo_v2
    nvml.ask("nvmlDeviceGetGpuFabricInfoV", handle, raw.byref(info))
    return {"gpu_fabric_state": float(info.state)}


def _thresholds(nvml: Nvml, handle: Any) -> Values:
    """Ampere and older say degrees; newer boards say margins, as field values."""
    found = {}
    for number, word in enumerate(("shutdown", "slowdown", "memory_max", "gpu_max")):
        degrees = nvml.ask("nvmlDeviceGetTemperatureThreshold", handle, number)
        found[f"gpu_temperature_limit/{word}"] = float(degrees)
    return found


FAST: Final = (
    Question("gpu_busy", _utilisation),
    Question("gpu_memory", memory),
    _one("gpu_sm_clock", "nvmlDeviceGetClockInfo", 1, scale=_MEGA),
    _one("gpu_memory_clock", "nvmlDeviceGetClockInfo", 2, scale=_MEGA),
    Question("gpu_throttled", _throttled),
    _one("gpu_power", "nvmlDeviceGetPowerUsage", scale=1e-3),
    _one("total:gpu_energy", "nvmlDeviceGetTotalEnergyConsumption", scale=1e-3, name="gpu_energy"),
    Question("gpu_temperature", _temperature),
    _one("gpu_thermal_margin", "nvmlDeviceGetMarginTemperature"),
    _one("gpu_performance_state", "nvmlDeviceGetPerformanceState"),
)
"""Asked with every reading."""

SLOW: Final = (
    _one("gpu_sm_clock_max", "nvmlDeviceGetMaxClockInfo", 1, scale=_MEGA),
    _one("gpu_memory_clock_max", "nvmlDeviceGetMaxClockInfo", 2, scale=_MEGA),
    _one("gpu_power_limit", "nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
    _one("gpu_power_limit_default", "nvmlDeviceGetPowerManagementDefaultLimit", scale=1e-3),
    Question("gpu_power_limit_max", _limits),
    _one("gpu_persistence_mode", "nvmlDeviceGetPersistenceMode"),
    _one("gpu_pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("gpu_pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
    _one("gpu_pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
    _one("gpu_pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
    _one("total:gpu_pcie_replays", "nvmlDeviceGetPcieReplayCounter", name="gpu_pcie_replays"),
    Question("gpu_ecc_mode", _ecc_mode),
    Question("gpu_ecc_errors", _ecc),
    Question("gpu_rows_remapped", _remapped),
    Question("gpu_nvlinks", _links),
    Question("gpu_fabric_state", _fabric),
    Question("gpu_temperature_limit", _thresholds),
)
"""Asked every ten seconds: these change rarely, and some are dear."""

_NS = 1e-9
_KIB = 1024.0
FAST_FIELDS: Final = (
    Field("gpu_throttle/sw_power_cap", 74, _NS, total=True),
    Field("gpu_throttle/sync_boost", 76, _NS, total=True),
    Field("gpu_throttle/board_limit", 77, _NS, total=True),
    Field("gpu_throttle/reliability", 79, _NS, total=True),
    Field("gpu_throttle/sw_thermal", 269, _NS, total=True),
    Field("gpu_throttle/hw_thermal", 270, _NS, total=True),
    Field("gpu_throttle/hw_power_brake", 271, _NS, total=True),
    Field("gpu_memory_temperature", 82),
    Field("gpu_pcie_sent", 197, total=True),
    Field("gpu_pcie_received", 198, total=True),
    Field("gpu_nvlink_sent", 138, _KIB, ALL_LINKS, total=True),
    Field("gpu_nvlink_received", 139, _KIB, ALL_LINKS, total=True),
    Field("gpu_recovery_action", 230),
)
SLOW_FIELDS: Final = (
    Field("gpu_margin_limit/shutdown", 193),
    Field("gpu_margin_limit/slowdown", 194),
    Field("gpu_margin_limit/memory_max", 195),
    Field("gpu_margin_limit/gpu_max", 196),
    Field("gpu_nvlink_errors/crc_flit", 38, total=True),
    Field("gpu_nvlink_errors/crc_data", 45, total=True),
    Field("gpu_nvlink_errors/replay", 52, total=True),
    Field("gpu_nvlink_errors/recovery", 59, total=True),
)
