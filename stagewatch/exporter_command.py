"""`stagewatch exporter …`: a sidecar in the foreground."""

import argparse
import signal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError

if TYPE_CHECKING:
    from exporters.engine.settings import EngineSettings

__all__ = ["add_parser", "run"]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`exporter engine`, its options, and nothing imported that it runs."""
    exporter = subparsers.add_parser("exporter", help="a sidecar that reads a source and pushes it")
    kinds = exporter.add_subparsers(dest="kind", required=True, metavar="KIND")
    engine = kinds.add_parser("engine", help="inference engines by their /metrics pages")
    engine.add_argument("--config", type=Path, metavar="FILE", help="section exporters.engine")
    engine.add_argument(
        "--target", action="append", default=[], metavar="URL", help="an engine; may be repeated"
    )
    engine.add_argument(
        "--service", action="append", default=[], metavar="NAME", help="one for all, or one each"
    )
    engine.add_argument(
        "--role",
        action="append",
        default=[],
        choices=("prefill", "decode", "both"),
        help="one for all, or one each",
    )
    engine.add_argument("--endpoint", metavar="URL", help="the collector's OTLP/HTTP address")
    engine.add_argument("--once", action="store_true", help="print one reading and end")
    cloudwatch = kinds.add_parser("cloudwatch", help="managed endpoints by AWS CloudWatch")
    cloudwatch.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="section exporters.cloudwatch"
    )
    cloudwatch.add_argument("--endpoint", metavar="URL", help="the collector's OTLP/HTTP address")
    way = cloudwatch.add_mutually_exclusive_group()
    way.add_argument("--once", action="store_true", help="print one reading and end")
    way.add_argument(
        "--plan",
        action="store_true",
        help="print calls per hour and dollars per month; ask nothing",
    )


def run(arguments: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM; with `--once` 1 if a target did not answer."""
    if arguments.kind == "cloudwatch":
        return _cloudwatch(arguments)
    from exporters.engine import run as engine  # noqa: PLC0415 - only this command pays for it
    from exporters.engine.describe import describe  # noqa: PLC0415

    settings = _settings(arguments)
    if arguments.once:
        readings = engine.read_once(settings)
        print(describe(readings), end="")  # noqa: T201 - the answer to a person
        return 0 if all(reading.up for reading in readings) else 1
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    engine.run(settings, stop)
    return 0


def _cloudwatch(arguments: argparse.Namespace) -> int:
    from exporters.cloudwatch import describe, run  # noqa: PLC0415 - only this command pays for it
    from stagewatch.config import load  # noqa: PLC0415

    config = load(arguments.config)
    settings = config.exporters.cloudwatch
    if settings is None:
        raise ConfigError(
            "no account to read",
            where="exporters.cloudwatch",
            remedy="Give the file a section with `scopes`; docs/watch-aws-endpoints.md shows one.",
        )
    if "spool_dir" not in settings.model_fields_set:
        spool_dir = config.store.data_dir / "spool"
        settings = settings.model_copy(update={"spool_dir": spool_dir})
    if arguments.endpoint is not None:
        settings = settings.model_copy(update={"endpoint": arguments.endpoint})
    if arguments.plan:
        print(describe.describe_plan(settings), end="")  # noqa: T201 - the answer to a person
        return 0
    if arguments.once:
        polls = run.poll_once(settings)
        print("\n".join(describe.describe_poll(*each) for each in polls), end="")  # noqa: T201
        return 1 if any(done.failures for _, done in polls) else 0
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run.run(settings, stop)
    return 0


def _settings(arguments: argparse.Namespace) -> "EngineSettings":
    """The file's section, with what the command line says instead."""
    from pydantic import ValidationError  # noqa: PLC0415

    from exporters.engine.settings import EngineSettings  # noqa: PLC0415

    told: dict[str, Any] = {}
    if arguments.config is not None:
        from stagewatch.config import load  # noqa: PLC0415

        section = load(arguments.config).exporters.engine
        told = section.model_dump(exclude_unset=True) if section is not None else {}
    if arguments.target:
        told["targets"] = _targets(arguments)
    if arguments.endpoint is not None:
        told["endpoint"] = arguments.endpoint
    if "targets" not in told:
        raise ConfigError(
            "no engine to read",
            where="exporters.engine",
            remedy="Give `--target URL --service NAME`, or a --config with `targets`.",
        )
    try:
        return EngineSettings.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            str(first["msg"]),
            where=".".join(("exporters.engine", *map(str, first["loc"]))),
            remedy="Mend it on the command line or in the file.",
        ) from error


def _targets(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    number = len(arguments.target)
    services = _one_each("--service", arguments.service, number)
    roles = _one_each("--role", arguments.role, number) if arguments.role else [None] * number
    return [
        {"url": url, "service": service, "role": role}
        for url, service, role in zip(arguments.target, services, roles, strict=True)
    ]


def _one_each(option: str, given: list[str], number: int) -> list[str]:
    if len(given) == 1:
        return given * number
    if len(given) != number:
        raise ConfigError(
            f"{len(given)} values for {number} targets",
            where=option,
            remedy="Give it once for all targets, or once for each of them.",
        )
    return given
