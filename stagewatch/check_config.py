"""`stagewatch check-config FILE`: whether it is right, and what it would watch."""

import sys
from pathlib import Path

from alerts.definition import gather
from alerts.receivers.readiness import ready
from domain.errors import ConfigError
from stagewatch.config import load

__all__ = ["run"]


def run(file: Path) -> int:
    """0 when the file can be started from, 1 with the first problem otherwise."""
    try:
        config = load(file)
        objectives = gather(config.objectives)
        ready(config.receivers, objectives)
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command speaks
        return 1
    engines = config.exporters.engine.targets if config.exporters.engine else ()
    probed = config.exporters.probe.targets if config.exporters.probe else ()
    for count, noun in (
        (len(objectives), "objectives"),
        (len(config.receivers), "receivers"),
        (len(engines), "engines to watch"),
        (len(probed), "endpoints to probe"),
    ):
        print(f"{noun}: {count}")  # noqa: T201
    if config.exporters.gpu is not None:
        print("the GPUs of this machine are watched")  # noqa: T201
    print(f"{file} is right")  # noqa: T201
    return 0
