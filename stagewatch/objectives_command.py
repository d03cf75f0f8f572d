"""`stagewatch slo validate`, `import` and `export`: objective files read, explained and translated."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError

if TYPE_CHECKING:
    from alerts.definition import Definition
    from alerts.loss import Loss

__all__ = ["add_actions", "run_export", "run_import", "run_schema", "run_validate"]

_LOOK_BACK_S = 6 * 3600


def add_actions(actions: Any) -> None:
    """Adds `validate`, `schema`, `import` and `export` to `slo`."""
    validate = actions.add_parser("validate", help="read objective files, and say what they mean")
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE")
    validate.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="say too which thresholds the sources of the last 6 h decide exactly",
    )
    actions.add_parser("schema", help="print the JSON Schema of objective files, for editors")
    taken = actions.add_parser("import", help="objectives from OpenSLO or Sloth files, as ours")
    taken.add_argument("files", nargs="+", type=Path, metavar="FILE")
    taken.add_argument(
        "--from",
        dest="source",
        choices=("openslo", "sloth"),
        required=True,
        help="what they are written for; ours go to stdout, what is lost to stderr",
    )
    given = actions.add_parser("export", help="objectives as OpenSLO")
    given.add_argument("files", nargs="+", type=Path, metavar="FILE")
    given.add_argument(
        "--to", dest="form", choices=("openslo",), required=True, help="OpenSLO v1, on stdout"
    )


def run_validate(arguments: argparse.Namespace) -> int:
    """0: every file is right; 1: one is not."""
    from alerts.definition import load_all  # noqa: PLC0415 - `--help` must not pay for it
    from alerts.meaning import composite_meaning, meaning  # noqa: PLC0415 - the same

    found = 0
    for path in arguments.files:
        try:
            promises = load_all(path)
            for definition in promises.definitions:
                _prove(definition)
        except ConfigError as error:
            print(error, file=sys.stderr)  # noqa: T201 - a command speaks
            found = 1
            continue
        for definition in promises.definitions:
            print("\n".join(meaning(definition)))  # noqa: T201
            if arguments.data_dir:
                _print_edges(arguments.data_dir, definition)
        for composite in promises.composites:
            print("\n".join(composite_meaning(composite)))  # noqa: T201
    return found


def run_import(arguments: argparse.Namespace) -> int:
    """0: all of it was taken over; 1: an objective was left out, and why stands on stderr."""
    from alerts import openslo, sloth  # noqa: PLC0415 - the same
    from alerts.definition import load  # noqa: PLC0415 - the same
    from alerts.reading import text_of  # noqa: PLC0415 - the same
    from alerts.writing import written  # noqa: PLC0415 - the same

    read = {"openslo": openslo.read, "sloth": sloth.read}[arguments.source]
    translated = [read(text_of(path), str(path)) for path in arguments.files]
    definitions = [each for part in translated for each in part.definitions]
    if definitions:
        ours = written(definitions)
        load(ours, name="what was imported")  # why: two of one name cannot stand in one file
        print(ours, end="")  # noqa: T201
    return _report([loss for part in translated for loss in part.losses], len(definitions))


def run_export(arguments: argparse.Namespace) -> int:
    """0: all of it could be said; 1: a composite could not."""
    from alerts.definition import load_all  # noqa: PLC0415 - the same
    from alerts.openslo_export import losses, written  # noqa: PLC0415 - the same

    parts = [load_all(path) for path in arguments.files]
    definitions = [each for part in parts for each in part.definitions]
    print(written(definitions), end="")  # noqa: T201
    composites = [each for part in parts for each in part.composites]
    return _report(losses(definitions, composites), len(definitions))


def run_schema(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - as every action
    """0: the schema stands on stdout."""
    from alerts.schema import schema_text  # noqa: PLC0415 - the same

    print(schema_text(), end="")  # noqa: T201
    return 0


def _prove(definition: Definition) -> None:
    """Tries a text of one's own on every kind of notification."""
    if definition.summary:
        from alerts.receivers.proof import prove  # noqa: PLC0415 - only who has one needs Jinja

        prove(definition.summary, where=f"slo {definition.name!r}, summary")


def _print_edges(data_dir: Path, definition: Definition) -> None:
    from alerts.decided import decided  # noqa: PLC0415 - the same
    from collector.query import Window  # noqa: PLC0415 - the same
    from collector.reader import StoreReader  # noqa: PLC0415 - the same

    now_s = int(time.time())
    reader = StoreReader(data_dir)
    try:
        window = Window(since_s=now_s - _LOOK_BACK_S, until_s=now_s)
        for line in decided(reader, definition, window):
            print(f"  {line}")  # noqa: T201
    finally:
        reader.close()


def _report(losses: Iterable[Loss], kept: int) -> int:
    """What was lost, on stderr, so that stdout is the file."""
    told = list(losses)
    for each in told:
        print(each, file=sys.stderr)  # noqa: T201
    dropped = sum(each.dropped for each in told)
    print(f"{kept} objectives taken over, {dropped} left out", file=sys.stderr)  # noqa: T201
    return 1 if dropped else 0
