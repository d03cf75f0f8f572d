"""`stagewatch slo reset`: a budget begins anew, with the name of who says so and why."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from domain.errors import ConfigError

__all__ = ["add_action", "run_reset"]


def add_action(actions: Any) -> None:
    """Adds `reset` to the actions of `slo`."""
    reset = actions.add_parser("reset", help="begin the budget of an objective anew")
    reset.add_argument("objective", metavar="ID", help="as `stagewatch slo status` calls it")
    reset.add_argument("--reason", required=True, help="why; it stands in the history")
    reset.add_argument(
        "--author",
        default=os.environ.get("USER", ""),
        help="who; default: the name of the one who is logged in",
    )
    reset.add_argument(
        "--data-dir",
        type=Path,
        default=Path(os.environ.get("STAGEWATCH_STORE__DATA_DIR", "stagewatch-data")),
        metavar="DIR",
        help="where the state of the alerts lies (default: %(default)s)",
    )


def run_reset(arguments: argparse.Namespace) -> int:
    """0: it was written down; the evaluator heeds it at its next tick."""
    from alerts.reset import reset_budget  # noqa: PLC0415 - `--help` must not pay for it
    from alerts.tables import open_state  # noqa: PLC0415

    path = arguments.data_dir / "alerts.db"
    if not path.exists():
        raise ConfigError(
            "holds no state of alerts",
            where=str(arguments.data_dir),
            remedy="Give --data-dir, or start `stagewatch up` with objectives first.",
        )
    state = open_state(f"sqlite:///{path}")
    try:
        done = reset_budget(
            state,
            arguments.objective,
            author=arguments.author,
            reason=arguments.reason,
            at_s=int(time.time()),
        )
    finally:
        state.dispose()
    if done is None:
        raise ConfigError(
            f"there is no objective {arguments.objective!r}",
            where=str(path),
            remedy="`stagewatch slo status` lists them.",
        )
    print(  # noqa: T201 - a command speaks
        f"{done.objective_id}: the budget begins anew ({done.remaining} was left). {done.reason}"
    )
    return 0
