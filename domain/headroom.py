"""Headroom: which resource of a pool runs out first, and how many GPUs are left of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["EXPECTED", "Headroom", "headroom"]

EXPECTED: Final = {"prefill": "tensor_active", "decode": "dram_bandwidth"}
"""What binds a pool of that role when all is well: prefill computes, decode reads memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """`used` is the P95 of the binding resource as a ratio; `expected` whether its role has it so."""

    resource: str
    used: float
    gpus_left: float
    expected: bool | None


def headroom(used: Mapping[str, float | None], *, gpus: int, role: str = "") -> Headroom | None:
    """From the P95 of each resource of a pool as a ratio; None where none is known.

    Resources are dram_bandwidth, tensor_active, kv_cache_usage, power over its limit … Utilisation
    is none, and is refused.
    """
    if "busy" in used or "gpu_busy" in used:
        raise ValueError("utilisation says that something runs, not how much is left")
    known = {name: value for name, value in used.items() if value is not None and value >= 0}
    if not known:
        return None
    resource = max(known, key=lambda name: (known[name], name))
    expected = EXPECTED.get(role)
    return Headroom(
        resource=resource,
        used=known[resource],
        gpus_left=gpus * max(1.0 - known[resource], 0.0),
        expected=resource == expected if expected is not None else None,
    )
