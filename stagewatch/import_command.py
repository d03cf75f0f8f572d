"""`stagewatch import …`: recordings, or a Prometheus's past, into a store or a running collector."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from domain.errors import ConfigError

if TYPE_CHECKING:
    from stagewatch.importing import Report, Wishes

__all__ = ["add_parser", "run"]

_COLLECTOR = "http://127.0.0.1:4318"
_ROLES = ("prefill", "decode", "both")
_EPILOG = """files:
  .bin .pb .json            OTLP traces or metrics
  .jsonl .csv .parquet      request tables of a load client
  .prom .om                 Prometheus pages of an engine, in order of their time. Pages of one
                            folder are of one engine, unless their names end in -NAME as in
                            03-during-decode.prom; a first line `# scraped_at_unix SECONDS` tells
                            when a page was read, else the file's own time does.
A file that was imported before changes nothing.

the past of a Prometheus:
  stagewatch import --prometheus http://prometheus:9090 --from now-7d
  It is asked as PROMETHEUS_TOKEN, or PROMETHEUS_USER and PROMETHEUS_PASSWORD, if these are set.
  A job is a service; --rename and --role speak of jobs. --config: named as the collector names it.
  A window that was imported before, or that Prometheus wrote to us, changes nothing.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`import` and its options, and nothing imported that it runs."""
    parser = commands.add_parser(
        "import",
        help="recordings, or the past of a Prometheus, into a store",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
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
    _add_history(parser)


def _add_history(parser: argparse.ArgumentParser) -> None:
    history = parser.add_argument_group("the past of a Prometheus")
    history.add_argument(
        "--prometheus", metavar="URL", help="its address, such as http://prom:9090"
    )
    history.add_argument(
        "--from",
        dest="since",
        default="now-1d",
        metavar="T",
        help="RFC 3339 or now-7d (default: %(default)s)",
    )
    history.add_argument("--to", dest="until", default="now", metavar="T", help="default: now")
    history.add_argument(
        "--step", metavar="TIME", help="leave out scrapes that follow faster (default: none)"
    )
    history.add_argument(
        "--match", default="{}", metavar="SELECTOR", help="""such as '{job="vllm"}'"""
    )
    history.add_argument(
        "--external",
        action="append",
        metavar="NAME=VALUE",
        help="its external labels (default: it is asked for them)",
    )
    history.add_argument("--config", type=Path, metavar="FILE", help="section collector")
    history.add_argument(
        "--prometheus-token-file", type=Path, metavar="FILE", help="its bearer token"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when everything was taken whole, 1 otherwise."""
    if bool(arguments.files) == (arguments.prometheus is not None):
        raise ConfigError(
            "nothing to import" if not arguments.files else "files and a Prometheus at once",
            where="import",
            remedy="Give files, or --prometheus URL.",
        )
    if arguments.prometheus is not None:
        return _history(arguments)
    return _files(arguments)


def _history(arguments: argparse.Namespace) -> int:
    from stagewatch.config import load  # noqa: PLC0415 - heavy
    from stagewatch.prometheus.importing import Asked, import_history, renamed  # noqa: PLC0415

    wishes = _wishes(arguments)
    settings = load(arguments.config).collecting
    named = renamed(settings.remote_write, wishes.renames, wishes.roles)
    asked = Asked(
        prometheus=arguments.prometheus,
        since=arguments.since,
        until=arguments.until,
        step=arguments.step,
        match=arguments.match,
        external=_pairs("--external", arguments.external) if arguments.external else None,
        token_file=arguments.prometheus_token_file,
        data_dir=arguments.data_dir,
        url=arguments.url or _COLLECTOR,
        token=arguments.token,
    )
    return import_history(asked, settings.model_copy(update={"remote_write": named}))


def _files(arguments: argparse.Namespace) -> int:
    from stagewatch.importing import into_collector, into_store  # noqa: PLC0415 - heavy

    wishes = _wishes(arguments)
    if arguments.data_dir is not None:
        reports = into_store(arguments.files, arguments.data_dir, wishes)
    else:
        url = arguments.url or _COLLECTOR
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
