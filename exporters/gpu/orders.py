"""What the parent wants of a reading process."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Orders"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """GPUs are told by UUID or as `index-3`."""

    interval_s: float = 1.0
    deadline_s: float = 3.0
    activity: str = "auto"  # auto, on, off
    dcgm_port: int = 9400
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def wants(self, *names: str) -> bool:
        """Whether a GPU of these names is for this process."""
        if any(name in self.skip for name in names):
            return False
        return not self.only or any(name in self.only for name in names)
