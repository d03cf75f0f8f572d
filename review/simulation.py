"""What a split of workers would have made of a load: the arrivals as they were, event by event.

5 million requests take seconds on one core. Nothing is drawn anew for another split: a request meets
the same dice in each, so that two splits differ by their workers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from review.load import Load
from review.replay import Replay
from review.split import Split
from review.steps import Model

__all__ = ["simulate"]


def simulate(
    load: Load,
    split: Split,
    model: Model,
    *,
    names: Sequence[str] = (),
    seed: int = 0,
    progress: Any = None,
) -> Replay:
    """Replays the load. `names`: workers that exist, in the order of the split, for their speed.

    `progress`: an int64 array of one; it counts arrivals while the replay runs.
    """
    if split.merged:
        from review.merged_run import run_merged  # noqa: PLC0415 - brings numba

        return run_merged(load, split, model, seed=seed)
    from review.split_run import run_split_of  # noqa: PLC0415 - brings numba

    return run_split_of(load, split, model, names=names, seed=seed, progress=progress)
