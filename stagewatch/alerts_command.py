"""`stagewatch alerts`: the evaluation of objectives alone, or one act on its alerts and receivers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stagewatch import receiver_command, response_command

__all__ = ["add_parser", "run"]

_GROUPS: tuple[Callable[[Any], None], ...] = (
    receiver_command.add_actions,
    response_command.add_actions,
)
"""Each adds its actions, and sets `act` to what runs them."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `alerts` and its actions to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "alerts", help="only the evaluation of objectives; or an act on alerts and receivers"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file")
    parser.add_argument(
        "--data-dir", type=Path, help="where the data lie (default: the file's)", metavar="DIR"
    )
    parser.add_argument("--port", type=int, help="pages and API (default 8400)")
    actions = parser.add_subparsers(
        dest="alerts_action", metavar="ACTION", help="without one the evaluation runs"
    )
    for add_actions in _GROUPS:
        add_actions(actions)
    parser.set_defaults(act=None)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Without an action it serves until it is told to stop."""
    if arguments.act is None:
        from stagewatch.up import run as serve  # noqa: PLC0415 - `--help` must not pay for it

        return serve(arguments)
    act: Callable[[argparse.Namespace], int] = arguments.act
    return act(arguments)
