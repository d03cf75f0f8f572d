"""What the driver's error codes mean: a word each, and whether the GPU, the driver or nothing is at fault."""

from typing import Final

__all__ = ["DRIVER_GONE", "GPU_GONE", "LASTING", "NOTHING_NOW", "reason_of"]

_REASONS: Final = {
    1: "uninitialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    6: "not_found",
    7: "too_many",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: "timeout",
    11: "irq_issue",
    12: "library_not_found",
    13: "not_supported",
    15: "gpu_lost",
    16: "reset_required",
    18: "version_mismatch",
    21: "no_data",
    25: "not_supported",
    26: "not_supported",
    27: "not_ready",
    28: "gpu_not_found",
    999: "unknown_error",
}

LASTING: Final = frozenset(("not_supported", "no_permission"))
"""A question that was answered so is left out, and asked again rarely."""

NOTHING_NOW: Final = frozenset(("not_found", "timeout", "no_data", "not_ready"))
"""There is no value at the moment; that is normal."""

GPU_GONE: Final = frozenset(("gpu_lost", "reset_required", "gpu_not_found"))
"""No other question to this GPU can be answered."""

DRIVER_GONE: Final = frozenset(("uninitialized", "driver_not_loaded", "version_mismatch"))
"""Only a new process, which maps the new library, can ask again."""


def reason_of(code: int) -> str:
    """One word; a code that nobody told us about keeps its number."""
    return _REASONS.get(code, f"error_{code}")
