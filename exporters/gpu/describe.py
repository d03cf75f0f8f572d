"""What the GPUs say, for a person: what `--once` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from exporters.gpu.fleet import Fleet
from exporters.gpu.gpu import Gpu

__all__ = ["WAY_OUT", "describe"]

WAY_OUT: Final = {
    "library_not_found": "libnvidia-ml.so.1 is not on this machine. Install the NVIDIA driver, or"
    " start the container with it (docker --gpus all, or the nvidia runtime class).",
    "driver_not_loaded": "the NVIDIA driver is not loaded. Load it (modprobe nvidia) and look at"
    " dmesg if it refuses.",
    "version_mismatch": "the driver was upgraded underneath: library and kernel module differ."
    " Reload the module (modprobe -r nvidia, modprobe nvidia) or reboot; no restart of ours is"
    " needed.",
    "bindings_missing": "nvidia-ml-py is not installed. Run: pip install 'stagewatch[gpu]'.",
    "no_permission": "the driver refuses us. Give this user access to /dev/nvidia*.",
    "unknown_error": "the driver cannot be asked (Unknown Error). A container that lost its"
    " devices needs to be started anew; elsewhere look at dmesg.",
    "starting": "the driver did not answer in time. If nvidia-smi hangs too, look at dmesg.",
}
_MIB: Final = 1024 * 1024
_LINES: Final = (
    ("busy", "gpu_busy", 100.0, "%"),
    ("SM active", "gpu_sm_active", 100.0, "%"),
    ("tensor active", "gpu_tensor_active", 100.0, "%"),
    ("DRAM bandwidth", "gpu_dram_bandwidth", 100.0, "%"),
    ("memory used", "gpu_memory_used", 1 / _MIB, "MiB"),
    ("of", "gpu_memory_total", 1 / _MIB, "MiB"),
    ("SM clock", "gpu_sm_clock", 1e-6, "MHz"),
    ("of", "gpu_sm_clock_max", 1e-6, "MHz"),
    ("power", "gpu_power", 1.0, "W"),
    ("of", "gpu_power_limit", 1.0, "W"),
    ("temperature", "gpu_temperature", 1.0, "°C"),
    ("margin", "gpu_thermal_margin", 1.0, "°C"),
    ("processes", "gpu_processes", 1.0, ""),
)


def describe(fleet: Fleet, now_s: float) -> str:
    """A paragraph per GPU. What a GPU does not tell is named, not shown as 0."""
    driver = f"driver {fleet.driver_version}, {len(fleet.gpus)} GPUs"
    gpus = sorted(fleet.gpus.values(), key=lambda gpu: gpu.index)
    return "\n\n".join([driver, *("\n".join(_gpu(gpu, fleet, now_s)) for gpu in gpus)]) + "\n"


def _gpu(gpu: Gpu, fleet: Fleet, now_s: float) -> Iterator[str]:
    reason = fleet.state(gpu, now_s)
    state = f"not observed: {reason}" if reason else "up"
    call = f" in {gpu.hangs_in}" if reason == "hung" else ""
    yield f"GPU {gpu.index} {gpu.labels.get('name', '')} {gpu.id}: {state}{call}"
    if reason or gpu.told is None:
        return
    yield from _part(gpu.told)
    for instance in gpu.told["instances"]:
        yield f"  {instance['uuid']} {instance['name']}"
        yield from (f"  {line}" for line in _part(instance))


def _part(told: Mapping[str, Any]) -> Iterator[str]:
    levels = told["levels"]
    parts = [
        f"{word} {levels[key] * scale:.4g} {unit}".rstrip()
        for word, key, scale, unit in _LINES
        if key in levels
    ]
    yield f"  {', '.join(parts)}"
    causes = [key.partition("/")[2] for key, on in levels.items() if _active(key, on)]
    if causes:
        yield f"  ! held down by {', '.join(causes)}"
    if told["absent"]:
        missing = ", ".join(f"{name} ({why})" for name, why in sorted(told["absent"].items()))
        yield f"  not told: {missing}"


def _active(key: str, value: float) -> bool:
    return key.startswith("gpu_throttled/") and value == 1.0
