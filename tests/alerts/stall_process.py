"""A process that lives through the recorded hang at full speed, to be killed at any point."""

import sys
import time
from pathlib import Path

from alerts.delivery import Delivery
from alerts.settings import AlertsSettings
from alerts.tables import open_state
from alerts.watch import Watch
from tests.alerts.engines import START_S, hang, sidecar

if __name__ == "__main__":
    folder, url = Path(sys.argv[1]), sys.argv[2]
    state = open_state(f"sqlite:///{folder / 'alerts.db'}")
    receiver = {"name": "pager", "url": url, "allow_private": True}
    settings = AlertsSettings(receivers=(receiver,), conditions={"down_after_s": 5})
    delivery = Delivery(state, settings.receivers)
    delivery.start()
    reached = folder / "reached"
    begin = int(reached.read_text()) if reached.exists() else 0
    with sidecar(folder / "data") as told:
        watch = Watch(told.reader, state, settings=settings, wake=delivery.wake)
        print("ready", flush=True)  # noqa: T201 - the test reads it
        for t, values in hang():
            if t >= begin:
                told.push(START_S + t, **values)
                watch.tick(START_S + t + 0.2)
                reached.with_suffix(".new").write_text(str(t))
                reached.with_suffix(".new").replace(reached)
                time.sleep(0.02)
        print("done", flush=True)  # noqa: T201
        time.sleep(60)
