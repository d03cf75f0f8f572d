"""`stagewatch diagnose`: why a service is slow, from a server or from a folder."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "run"]

_URL = "http://127.0.0.1:8400"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `diagnose` to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "diagnose", help="why a service is slow: stages, causes, what was not evaluated"
    )
    parser.add_argument(
        "--service", metavar="S", help="which; without it the one that is worst off"
    )
    parser.add_argument(
        "--at", default="now", metavar="T", help="RFC 3339, now-1h, or seconds since 1970"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="default: %(default)s"
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="with --data-dir: whose objectives hold"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--url",
        default=os.environ.get("STAGEWATCH_URL", _URL),
        help="a running server (default: %(default)s)",
    )
    place.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="read a store, also while in use"
    )
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """0: nothing is wrong; 1: something is, whether or not its cause is known."""
    from alerts.diagnosis.telling import text  # noqa: PLC0415 - `--help` must not pay for it

    answer = _offline(arguments) if arguments.data_dir else _online(arguments)
    as_json = arguments.format == "json"
    print(json.dumps(answer, ensure_ascii=False) if as_json else text(answer))  # noqa: T201 - the answer
    return int(bool(answer["causes"]) or answer["slow"])


def _offline(arguments: argparse.Namespace) -> Any:
    from alerts.definition import gather  # noqa: PLC0415 - `--help` must not pay for it
    from alerts.diagnosis.inquest import diagnose_asked  # noqa: PLC0415
    from alerts.diagnosis.telling import diagnosis_json  # noqa: PLC0415
    from collector.reader import StoreReader  # noqa: PLC0415
    from collector.times import instant_s  # noqa: PLC0415
    from stagewatch.config import load  # noqa: PLC0415

    at_s = int(instant_s(arguments.at, now_s=time.time(), name="--at"))
    definitions = gather(load(arguments.config).alerting.objectives) if arguments.config else []
    reader = StoreReader(arguments.data_dir)
    try:
        return diagnosis_json(diagnose_asked(reader, arguments.service, at_s, definitions))
    finally:
        reader.close()


def _online(arguments: argparse.Namespace) -> Any:
    from stagewatch.query_command import asked_of  # noqa: PLC0415 - heavy for `--help`

    asked = {"at": arguments.at, "service": arguments.service}
    told = {name: value for name, value in asked.items() if value is not None}
    return asked_of(arguments.url, "diagnosis", told)
