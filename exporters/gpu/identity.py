"""What a board is, asked once for each handle: labels of its one info metric."""

from __future__ import annotations

from typing import Any, Final

from exporters.gpu.nvml import Nvml, Unavailable

__all__ = ["identity"]

_ARCHITECTURES: Final = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
}


def identity(nvml: Nvml, handle: Any) -> dict[str, str]:
    """Each part by itself: a name that cannot be read hides no other."""
    found = {
        "name": _text(nvml, "nvmlDeviceGetName", handle),
        "serial": _text(nvml, "nvmlDeviceGetSerial", handle),
        "pci_bus_id": _bus(nvml, handle),
        "minor": _number(nvml, "nvmlDeviceGetMinorNumber", handle),
        "architecture": _architecture(nvml, handle),
        "memory_model": _memory_model(nvml, handle),
    }
    return {key: value for key, value in found.items() if value}


def _text(nvml: Nvml, call: str, handle: Any) -> str:
    try:
        return nvml.text(call, handle)
    except Unavailable:
        return ""


def _bus(nvml: Nvml, handle: Any) -> str:
    try:
        return str(nvml.guard(lambda: nvml.raw.nvmlDeviceGetPciInfo(handle).busId))
    except Unavailable:
        return ""


def _number(nvml: Nvml, call: str, handle: Any) -> str:
    try:
        return str(int(nvml.ask(call, handle)))
    except Unavailable:
        return ""


def _architecture(nvml: Nvml, handle: Any) -> str:
    number = _number(nvml, "nvmlDeviceGetArchitecture", handle)
    return _ARCHITECTURES.get(int(number), number) if number else ""


def _memory_model(nvml: Nvml, handle: Any) -> str:
    """`unified` where the board has no memory of its own (GB10): there is no used and no total."""
    try:
        nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    except Unavailable as missing:
        return "unified" if missing.reason == "not_supported" else ""
    return "dedicated"
