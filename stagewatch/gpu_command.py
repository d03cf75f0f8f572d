"""`stagewatch exporter gpu`: one reading for a person, or the sidecar in place of this process."""

import argparse
import json
import logging
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from domain.errors import ConfigError

if TYPE_CHECKING:
    from exporters.gpu.plan import Plan
    from exporters.gpu.settings import GpuSettings

__all__ = ["add_parser", "run"]

_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    " from exporters.gpu.__main__ import main; sys.exit(main(*sys.argv[2:]))"
)


def add_parser(kinds: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    gpu = kinds.add_parser("gpu", help="the NVIDIA GPUs of this machine by their driver")
    gpu.add_argument("--config", type=Path, metavar="FILE", help="section exporters.gpu")
    gpu.add_argument("--endpoint", metavar="URL", help="the collector's OTLP/HTTP address")
    gpu.add_argument(
        "--spool-dir",
        type=Path,
        metavar="DIRECTORY",
        help="where exports wait while the collector is away (default: stagewatch-data/spool)",
    )
    gpu.add_argument("--once", action="store_true", help="print one reading and end")


def run(arguments: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM; with `--once` 1 if there is no driver or a GPU did not answer."""
    plan = _settings(arguments).plan()
    return _once(plan) if arguments.once else _become(plan)


def _once(plan: "Plan") -> int:
    from exporters.gpu.describe import WAY_OUT, describe  # noqa: PLC0415 - only this way pays
    from exporters.gpu.run import read_once  # noqa: PLC0415

    fleet = read_once(plan)
    if fleet.driver_down:
        why = WAY_OUT.get(fleet.driver_down, f"the driver says {fleet.driver_down}.")
        print(f"stagewatch: gpu: {why}", file=sys.stderr)  # noqa: T201 - the answer to a person
        return 1
    now_s = time.monotonic()
    print(describe(fleet, now_s), end="")  # noqa: T201 - the same
    return 0 if fleet.all_up(now_s) else 1


def _become(plan: "Plan") -> NoReturn:
    """The same process with another program: what has read the configuration costs 30 MB to keep."""
    reading, writing = os.pipe()  # why: a token on the command line or in the environment leaks
    os.write(writing, json.dumps(asdict(plan), default=str).encode())
    os.close(writing)
    os.set_inheritable(reading, True)  # noqa: FBT003 - its only form
    level = logging.getLogger().getEffectiveLevel()
    arguments = [json.dumps(sys.path), str(reading), str(level)]
    # why one arena: a dozen threads that take turns need no heap each, which would be a megabyte
    environment = {"MALLOC_ARENA_MAX": "1", **os.environ}
    command = [sys.executable, "-c", _CODE, *arguments]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own code


def _settings(arguments: argparse.Namespace) -> "GpuSettings":
    from pydantic import ValidationError  # noqa: PLC0415

    from exporters.gpu.settings import GpuSettings  # noqa: PLC0415

    told: dict[str, Any] = {}
    if arguments.config is not None:
        from stagewatch.config import load  # noqa: PLC0415

        config = load(arguments.config)
        section = config.exporters.gpu
        told = section.model_dump(exclude_unset=True) if section is not None else {}
        told.setdefault("spool_dir", config.store.data_dir / "spool")
    if arguments.endpoint is not None:
        told["endpoint"] = arguments.endpoint
    if arguments.spool_dir is not None:
        told["spool_dir"] = arguments.spool_dir
    try:
        return GpuSettings.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            str(first["msg"]),
            where=".".join(("exporters.gpu", *map(str, first["loc"]))),
            remedy="Mend it on the command line or in the file.",
        ) from error
