"""`stagewatch exporter …`: a sidecar in the foreground."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError
from stagewatch import cloudwatch_command, gpu_command
from stagewatch.foreground import asked_to_stop, greeting, many

if TYPE_CHECKING:
    from exporters.engine.settings import EngineSettings
    from exporters.probe.settings import ProbeSettings

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
    engine.add_argument(
        "--spool-dir",
        type=Path,
        metavar="DIRECTORY",
        help="where exports wait while the collector is away (default: stagewatch-data/spool)",
    )
    engine.add_argument(
        "--listen-port",
        type=int,
        metavar="PORT",
        help="the sidecar's own /metrics (default 9464; 0: a free one)",
    )
    engine.add_argument("--once", action="store_true", help="print one reading and end")
    probe = kinds.add_parser("probe", help="endpoints by real requests from outside")
    probe.add_argument("--config", type=Path, metavar="FILE", help="section exporters.probe")
    probe.add_argument("--once", action="store_true", help="print one probe of each, and end")
    gpu_command.add_parser(kinds)
    cloudwatch_command.add_parser(kinds)


def run(arguments: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM; with `--once` 1 if a source did not answer."""
    if arguments.kind == "gpu":  # why first: it becomes another program, and a small one
        return gpu_command.run(arguments)
    from stagewatch.telemetry.opening import own_telemetry  # noqa: PLC0415 - as all that runs

    with own_telemetry(f"stagewatch-{arguments.kind}-exporter"):
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.kind == "probe":
        return _probe(arguments)
    if arguments.kind == "cloudwatch":
        return cloudwatch_command.run(arguments)
    from exporters.engine import run as engine  # noqa: PLC0415 - only this command pays for it
    from exporters.engine.describe import describe  # noqa: PLC0415

    settings = _settings(arguments)
    if arguments.once:
        readings = engine.read_once(settings)
        print(describe(readings), end="")  # noqa: T201 - the answer to a person
        return 0 if all(reading.up for reading in readings) else 1
    began = _greeting("reads", settings)
    engine.run(settings, asked_to_stop(), started=began)
    return 0


def _probe(arguments: argparse.Namespace) -> int:
    from exporters.probe import run as probe  # noqa: PLC0415 - only this command pays for it
    from exporters.probe.describe import describe  # noqa: PLC0415
    from stagewatch.config import load  # noqa: PLC0415

    config = load(arguments.config)
    if config.probing is None:
        raise ConfigError(
            "no endpoint to ask",
            where="exporters.probe",
            remedy="Give a --config with `targets` in that section.",
        )
    settings = config.beside(config.probing)
    if arguments.once:
        rounds = probe.read_once(settings)
        print("\n".join(describe(*each) for each in rounds), end="")  # noqa: T201 - the answer to a person
        return 0 if all(done.up for _, done in rounds) else 1
    began = _greeting("asks", settings)
    probe.run(settings, asked_to_stop(), started=began)
    return 0


def _greeting(
    does: str, settings: "EngineSettings | ProbeSettings"
) -> Callable[[int | None], None]:
    targets = many(len(settings.targets), "target")
    return greeting(f"{does} {targets} every {settings.interval_s:g} s", settings)


def _settings(arguments: argparse.Namespace) -> "EngineSettings":
    """The file's section, with what the command line says instead."""
    from pydantic import ValidationError  # noqa: PLC0415

    from exporters.engine.settings import EngineSettings  # noqa: PLC0415

    told: dict[str, Any] = {}
    if arguments.config is not None:
        from stagewatch.config import load  # noqa: PLC0415

        config = load(arguments.config)
        section = config.exporters.engine
        told = section.model_dump(exclude_unset=True) if section is not None else {}
        told.setdefault("spool_dir", config.store.data_dir / "spool")
    if arguments.target:
        told["targets"] = _targets(arguments)
    if arguments.endpoint is not None:
        told["endpoint"] = arguments.endpoint
    if arguments.spool_dir is not None:
        told["spool_dir"] = arguments.spool_dir
    if arguments.listen_port is not None:
        told["listen_port"] = arguments.listen_port
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
            first["msg"].removeprefix("Value error, ").rstrip("."),
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
    if not given:
        raise ConfigError(
            "a target needs it", where=option, remedy=f"Give {option} NAME, once for all targets."
        )
    if len(given) == 1:
        return given * number
    if len(given) != number:
        raise ConfigError(
            f"{len(given)} values for {number} targets",
            where=option,
            remedy="Give it once for all targets, or once for each of them.",
        )
    return given
