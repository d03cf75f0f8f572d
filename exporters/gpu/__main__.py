"""The sidecar as a process of its own, without what reading a configuration loads."""

import json
import logging
import os
import signal
import sys
from threading import Event, Thread

from domain.errors import StagewatchError
from exporters.gpu.plan import Plan
from exporters.gpu.run import Sidecar, run

__all__ = ["main"]


def main(plan_fd: str, level: str) -> int:
    """Until SIGINT or SIGTERM; 2 for settings that cannot be. SIGHUP lets go of the driver a while."""
    logging.basicConfig(
        level=int(level), format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    with os.fdopen(int(plan_fd)) as file:
        plan = Plan.from_plain(json.load(file))
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def listen(sidecar: Sidecar) -> None:
        release = sidecar.supervisor.release
        arguments = (plan.release_s,)
        signal.signal(signal.SIGHUP, lambda *_: Thread(target=release, args=arguments).start())

    try:
        run(plan, stop, started=listen)
    except StagewatchError as error:
        print(f"stagewatch: {error}", file=sys.stderr)  # noqa: T201 - the answer to a person
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
