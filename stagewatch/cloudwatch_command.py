"""`stagewatch exporter cloudwatch`: a plan, one reading, or the sidecar in the foreground."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError
from stagewatch.foreground import asked_to_stop, greeting, many

if TYPE_CHECKING:
    from exporters.cloudwatch.settings import CloudWatchSettings

__all__ = ["add_parser", "run"]


def add_parser(kinds: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    cloudwatch = kinds.add_parser("cloudwatch", help="managed endpoints by AWS CloudWatch")
    cloudwatch.add_argument(
        "--config", type=Path, metavar="FILE", help="section exporters.cloudwatch"
    )
    cloudwatch.add_argument("--endpoint", metavar="URL", help="the collector's OTLP/HTTP address")
    cloudwatch.add_argument(
        "--spool-dir",
        type=Path,
        metavar="DIRECTORY",
        help="where exports wait while the collector is away (default: stagewatch-data/spool)",
    )
    cloudwatch.add_argument(
        "--listen-port",
        type=int,
        metavar="PORT",
        help="the sidecar's own /metrics (default 9467; 0: a free one)",
    )
    way = cloudwatch.add_mutually_exclusive_group()
    way.add_argument("--once", action="store_true", help="print one reading and end")
    way.add_argument(
        "--plan",
        action="store_true",
        help="print calls per hour and dollars per month; ask nothing of AWS",
    )


def run(arguments: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM; with `--once` 1 if an account refused something."""
    from exporters.cloudwatch import describe, run  # noqa: PLC0415 - only this command pays for it

    settings = _settings(arguments)
    if arguments.plan:
        print(describe.describe_plan(settings), end="")  # noqa: T201 - the answer to a person
        return 0
    if arguments.once:
        polls = run.poll_once(settings)
        print("\n".join(describe.describe_poll(*each) for each in polls), end="")  # noqa: T201
        return 1 if any(done.failures for _, done in polls) else 0
    run.run(settings, asked_to_stop(), started=greeting(_reads(settings), settings))
    return 0


def _reads(settings: "CloudWatchSettings") -> str:
    named = sum(len(scope.endpoints) for scope in settings.scopes)
    more = any(scope.discover for scope in settings.scopes)
    endpoints = f"{many(named, 'endpoint')}{' and what it discovers' if more else ''}"
    accounts = many(len({scope.account for scope in settings.scopes}), "account")
    return f"reads {endpoints} of {accounts} every minute"


def _settings(arguments: argparse.Namespace) -> "CloudWatchSettings":
    """The file's section, with what the command line says instead."""
    from pydantic import ValidationError  # noqa: PLC0415

    from exporters.cloudwatch.settings import CloudWatchSettings  # noqa: PLC0415

    told: dict[str, Any] = {}
    if arguments.config is not None:
        from stagewatch.config import load  # noqa: PLC0415

        config = load(arguments.config)
        if config.exporters.cloudwatch is not None:
            told = config.exporters.cloudwatch.model_dump(exclude_unset=True)
            told.setdefault("spool_dir", config.store.data_dir / "spool")
    if not told:
        raise ConfigError(
            "no account to read",
            where="exporters.cloudwatch",
            remedy="Give a --config with `scopes` in that section; "
            "docs/watch-aws-endpoints.md shows one.",
        )
    for name in ("endpoint", "spool_dir", "listen_port"):
        if (value := getattr(arguments, name)) is not None:
            told[name] = value
    try:
        return CloudWatchSettings.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            first["msg"].removeprefix("Value error, ").rstrip("."),
            where=".".join(("exporters.cloudwatch", *map(str, first["loc"]))),
            remedy="Mend it on the command line or in the file.",
        ) from error
