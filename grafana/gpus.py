"""GPUs: what they do, what holds them down, and what is broken."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard

from grafana.parts import board, lines, query, row, stack, variable

__all__ = ["gpus"]

_ONE = 'gpu_uuid=~"$gpu_uuid"'
_NAMED = "* on (instance, gpu_uuid) group_left (index, gpu_name) stagewatch_gpu_info"


def gpus() -> dashboard.Dashboard:
    return board(
        "stagewatch-gpus",
        "Stagewatch: GPUs",
        "What a GPU computes, what holds its clocks down, and what its driver asks for.",
        [*_work(), *_limits(), *_links(), *_health()],
        variables=[variable("gpu_uuid", "stagewatch_gpu_info", "GPU")],
        page="/gpus",
    )


def _of(name: str) -> str:
    return f"stagewatch_gpu_{name}{{{_ONE}}} {_NAMED}"


def _each(title: str, unit: str, name: str, text: str = "", width: int = 12) -> object:
    return lines(
        title, unit, query(_of(name), "{{index}} {{gpu_name}} {{instance}}"), text=text, width=width
    )


def _rate(name: str, by: str = "gpu_uuid") -> str:
    return f"sum by ({by}) (rate(stagewatch_gpu_{name}_total{{{_ONE}}}[$__rate_interval]))"


def _work() -> Sequence[object]:
    used = (
        f"stagewatch_gpu_memory_used_bytes{{{_ONE}}} / stagewatch_gpu_memory_total_bytes {_NAMED}"
    )
    return [
        row("Work"),
        _each(
            "Busy",
            "percentunit",
            "busy_ratio",
            "Share of time with any kernel; it does not say how much is computed.",
        ),
        _each(
            "Multiprocessors at work",
            "percentunit",
            "sm_active_ratio",
            "Only where the GPU tells (GPM).",
        ),
        _each("Tensor cores at work", "percentunit", "tensor_active_ratio"),
        _each("Memory bandwidth in use", "percentunit", "dram_bandwidth_ratio"),
        lines("Memory in use", "percentunit", query(used, "{{index}} {{gpu_name}} {{instance}}")),
        _each("Processes", "none", "processes"),
    ]


def _limits() -> Sequence[object]:
    power = f"stagewatch_gpu_power_watts{{{_ONE}}} / stagewatch_gpu_power_limit_watts {_NAMED}"
    return [
        row("What holds it down"),
        stack(
            "Clocks held down, by cause",
            "percentunit",
            query(_rate("throttle_seconds", "cause"), "{{cause}}"),
            text="Seconds of it a second, of all GPUs chosen.",
        ),
        _each("Clock of the multiprocessors", "hertz", "sm_clock_hertz"),
        lines(
            "Power, of its limit",
            "percentunit",
            query(power, "{{index}} {{gpu_name}} {{instance}}"),
        ),
        _each("Temperature", "celsius", "temperature_celsius"),
        _each("Degrees left until it slows down", "celsius", "thermal_margin_celsius"),
        lines(
            "Energy",
            "watt",
            query(_rate("energy_joules"), "{{gpu_uuid}}"),
            text="Joules a second, as counted.",
        ),
    ]


def _links() -> Sequence[object]:
    return [
        row("Links"),
        lines(
            "NVLink",
            "Bps",
            query(_rate("nvlink_received_bytes"), "{{gpu_uuid}} in"),
            query(_rate("nvlink_sent_bytes"), "{{gpu_uuid}} out"),
        ),
        lines(
            "PCIe",
            "Bps",
            query(_rate("pcie_received_bytes"), "{{gpu_uuid}} in"),
            query(_rate("pcie_sent_bytes"), "{{gpu_uuid}} out"),
        ),
        _each("NVLinks that are up", "none", "nvlinks_active"),
        lines(
            "Link errors",
            "ops",
            query(_rate("nvlink_errors", "gpu_uuid, kind"), "{{gpu_uuid}} NVLink {{kind}}"),
            query(_rate("pcie_replays"), "{{gpu_uuid}} PCIe"),
        ),
    ]


def _health() -> Sequence[object]:
    return [
        row("Health"),
        _each(
            "Answers in time",
            "none",
            "up",
            "0 while its driver keeps it; the other GPUs are read all the same.",
        ),
        lines(
            "XID errors",
            "ops",
            query(_rate("xid_errors", "gpu_uuid, xid"), "XID {{xid}} {{gpu_uuid}}"),
            text="Empty while none came.",
        ),
        lines(
            "Memory errors",
            "ops",
            query(_rate("ecc_errors", "gpu_uuid, type"), "{{gpu_uuid}} {{type}}"),
        ),
        _each(
            "What the driver asks for",
            "none",
            "recovery_action",
            "0 nothing, 1 reset, 2 reboot, 3 drain peers, 4 both.",
        ),
        _each("Duration of a reading", "s", "read_duration_seconds"),
        lines(
            "Age of a reading",
            "s",
            query(f"time() - stagewatch_gpu_last_read_timestamp_seconds{{{_ONE}}}", "{{gpu_uuid}}"),
        ),
    ]
