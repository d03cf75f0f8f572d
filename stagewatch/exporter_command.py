"""`stagewatch exporter …`: a sidecar in the foreground."""

import argparse
import signal
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from domain.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from exporters.engine.settings import EngineSettings
    from exporters.gpu.settings import GpuSettings

__all__ = ["add_parser", "run"]

_Settings = TypeVar("_Settings", bound="BaseModel")


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
    gpu = kinds.add_parser("gpu", help="the NVIDIA GPUs of this machine by their driver")
    gpu.add_argument("--config", type=Path, metavar="FILE", help="section exporters.gpu")
    gpu.add_argument("--endpoint", metavar="URL", help="the collector's OTLP/HTTP address")
    gpu.add_argument("--once", action="store_true", help="print one reading and end")


def run(arguments: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM; with `--once` 1 if a source did not answer."""
    return _run_gpu(arguments) if arguments.kind == "gpu" else _run_engine(arguments)


def _run_gpu(arguments: argparse.Namespace) -> int:
    """SIGHUP lets go of the driver for a while."""
    from exporters.gpu import run as gpu  # noqa: PLC0415 - only this command pays for it

    settings = _gpu_settings(arguments)
    if arguments.once:
        return _gpu_once(settings)

    def listen(sidecar: gpu.Sidecar) -> None:
        release = sidecar.supervisor.release
        signal.signal(signal.SIGHUP, lambda *_: Thread(target=release, args=(for_s,)).start())

    for_s, stop = settings.release_s, _stop_on_signals()
    gpu.run(settings, stop, started=listen)
    return 0


def _gpu_once(settings: "GpuSettings") -> int:
    from exporters.gpu.describe import WAY_OUT, describe  # noqa: PLC0415
    from exporters.gpu.run import read_once  # noqa: PLC0415

    fleet = read_once(settings)
    if fleet.driver_down:
        why = WAY_OUT.get(fleet.driver_down, f"the driver says {fleet.driver_down}.")
        print(f"stagewatch: gpu: {why}", file=sys.stderr)  # noqa: T201 - the answer to a person
        return 1
    now_s = time.monotonic()
    print(describe(fleet, now_s), end="")  # noqa: T201 - the same
    return 0 if fleet.all_up(now_s) else 1


def _gpu_settings(arguments: argparse.Namespace) -> "GpuSettings":
    from exporters.gpu.settings import GpuSettings  # noqa: PLC0415

    told: dict[str, Any] = {}
    if arguments.config is not None:
        from stagewatch.config import load  # noqa: PLC0415

        section = load(arguments.config).exporters.gpu
        told = section.model_dump(exclude_unset=True) if section is not None else {}
    if arguments.endpoint is not None:
        told["endpoint"] = arguments.endpoint
    return _checked(GpuSettings, told, "exporters.gpu")


def _stop_on_signals() -> Event:
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _run_engine(arguments: argparse.Namespace) -> int:
    from exporters.engine import run as engine  # noqa: PLC0415 - only this command pays for it
    from exporters.engine.describe import describe  # noqa: PLC0415

    settings = _settings(arguments)
    if arguments.once:
        readings = engine.read_once(settings)
        print(describe(readings), end="")  # noqa: T201 - the answer to a person
        return 0 if all(reading.up for reading in readings) else 1
    engine.run(settings, _stop_on_signals())
    return 0


def _settings(arguments: argparse.Namespace) -> "EngineSettings":
    """The file's section, with what the command line says instead."""
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
    return _checked(EngineSettings, told, "exporters.engine")


def _checked(model: type[_Settings], told: dict[str, Any], section: str) -> _Settings:
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        return model.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            str(first["msg"]),
            where=".".join((section, *map(str, first["loc"]))),
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
