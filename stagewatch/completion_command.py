"""`stagewatch completion`: what a shell needs to complete our commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "completion"]

SHELLS = ("bash", "zsh", "fish")


def add_parser(commands: Any) -> None:
    """Adds `completion` to the sub-commands of `stagewatch`."""
    parser = commands.add_parser("completion", help="completion of commands and options in a shell")
    parser.add_argument("shell", choices=SHELLS)


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script to source; where a path is wanted it offers files."""
    import shtab  # noqa: PLC0415 - only this command pays for it

    for action in _actions(parser):
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined] # shtab reads it there
    return shtab.complete(parser, shell=shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no door
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action
