"""The compiler of the simulator's loops; without numba they run as plain Python, 50 to 100 times slower.

Only the modules of the loops import this one, and only `review.simulation` imports them, when it
simulates: nobody else pays for numba.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["INTERPRETED", "compiled", "inlined"]

Loop = TypeVar("Loop", bound=Callable[..., Any])

_HERE: Final = Path(__file__).resolve().parent
_LOOPS: Final = (
    "compiled",
    "decode_loop",
    "heap",
    "merged_loop",
    "pools",
    "prefill_loop",
    "routing",
    "split_loop",
    "worker_choice",
)

try:
    _numba: Any = importlib.import_module("numba")
except ImportError:
    _numba = None

INTERPRETED: Final = _numba is None or bool(_numba.config.DISABLE_JIT)
"""Nothing is compiled: a review says so, and replays fewer requests."""


def _folder() -> Path | None:
    """Where machine code is kept: beside us, or in the user's cache; None where neither is writable.

    why a digest of their sources: numba looks at the file of a loop only, and would go on using
    what it compiled before the loops that this one calls were changed.
    """
    sources = b"".join((_HERE / f"{name}.py").read_bytes() for name in _LOOPS)
    name = f"loops-{hashlib.blake2b(sources, digest_size=8).hexdigest()}"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - a home need not exist
    for place in (_HERE / "__pycache__", Path(home) / "stagewatch"):
        try:
            (place / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(place / name, os.W_OK):
            return place / name
    return None


_kept = None if INTERPRETED else _folder()
if _kept is not None and not _numba.config.CACHE_DIR:
    _numba.config.CACHE_DIR = str(_kept)


def compiled(loop: Loop) -> Loop:
    """The loop in machine code, kept on disk for the next process where a folder can be written.

    why `_nrt=False`: no loop makes an array, so none need count who holds one; that halves the time.
    """
    return _fast(loop)


def inlined(loop: Loop) -> Loop:
    """The same, put where it is called: a dozen arrays are a hundred arguments, which cost more than it."""
    return _fast(loop, forceinline=True)


def _fast(loop: Loop, **more: bool) -> Loop:
    if INTERPRETED:
        return loop
    options = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False, **more}
    fast: Loop = _numba.njit(cache=_kept is not None, **options)(loop)
    return fast
