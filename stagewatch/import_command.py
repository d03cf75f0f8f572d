"""`stagewatch import FILE…`: recordings into a store, or into a running collector."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from domain.errors import ConfigError

if TYPE_CHECKING:
    from stagewatch.importing import Report, Wishes

__all__ = ["add_parser", "run"]

_ROLES = ("prefill", "decode", "both")
_EPILOG = """files:
  .bin .pb .json            OTLP traces or metrics
  .jsonl .csv .parquet      request tables of a load client
  .prom .om                 Prometheus pages of an engine, in order of their time. Pages of one
                            folder are of one engine, unless their names end in -NAME as in
                            03-during-decode.prom; a first line `# scraped_at_unix SECONDS` tells
                            when a page was read, else the file's own time does.
A file that was imported before changes nothing.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`import` and its options, and nothing imported that it runs."""
    parser = commands.add_parser(
        "import",
        help="OTLP dumps, request tables, engine pages into a store",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    into = parser.add_mutually_exclusive_group()
    into.add_argument("--data-dir", type=Path, metavar="DIR", help="a store nobody else writes")
    into.add_argument("--url", metavar="URL", help="a running collector (default: the local one)")
    parser.add_argument("--token", help="bearer token of that collector")
    parser.add_argument(
        "--service", metavar="NAME", help="whose pages and request tables these are"
    )
    parser.add_argument("--replica", metavar="NAME", help="which replica the pages are of")
    parser.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="NAME=ROLE",
        help="role of a service's spans or of the pages called NAME: prefill, decode, both",
    )
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="count the spans and pages of service OLD as those of NEW",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when every file was taken whole, 1 otherwise."""
    from stagewatch.importing import into_collector, into_store  # noqa: PLC0415 - heavy

    wishes = _wishes(arguments)
    if arguments.data_dir is not None:
        reports = into_store(arguments.files, arguments.data_dir, wishes)
    else:
        url = arguments.url or "http://127.0.0.1:4318"
        reports = into_collector(arguments.files, url, arguments.token, wishes)
    found = 0
    for report in reports:
        found |= _tell(report)
    return found


def _tell(report: "Report") -> int:
    line = f"{report.path}: {report.words}"
    print(line, file=sys.stdout if report.whole else sys.stderr, flush=True)
    return 0 if report.whole else 1


def _wishes(arguments: argparse.Namespace) -> "Wishes":
    from stagewatch.importing import Wishes  # noqa: PLC0415

    roles = _pairs("--role", arguments.role)
    for name, role in roles.items():
        if role not in _ROLES:
            raise ConfigError(
                f"{role!r} is no role",
                where=f"--role {name}={role}",
                remedy=f"Use one of {', '.join(_ROLES)}.",
            )
    return Wishes(
        service=arguments.service,
        replica=arguments.replica,
        roles=roles,
        renames=_pairs("--rename", arguments.rename),
    )


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals and value):
            raise ConfigError(
                f"{each!r} is no pair", where=option, remedy=f"Write {option} NAME=VALUE."
            )
        pairs[name] = value
    return pairs
