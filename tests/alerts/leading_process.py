"""A process that judges and tells while it leads; a minute of its incidents lasts a tenth of a second."""

import sys
import threading
import time

from alerts.caretaker import Caretaker
from alerts.delivery import Delivery
from alerts.evaluator import Evaluator
from alerts.leadership import Leadership
from alerts.settings import AlertsSettings
from alerts.tables import open_state
from tests.alerts.fleet import START_S, Fleet, chat, minute
from tests.alerts.scene import QUIET

MINUTE_S = 0.1
APART = 60
"""Minutes from one outage to the next; each is over half an hour before."""


def incidents(count):
    """So many outages of three minutes, each with peace behind it."""
    return [minute(index, 0 if index % APART < 3 else 600) for index in range(count * APART)]


def main(url, pager, begun_s):
    begun_s = float(begun_s)
    state = open_state(url)
    receiver = {"name": "pager", "url": pager, "allow_private": True, "timeout_s": 1}
    settings = AlertsSettings(receivers=(receiver,))

    def clock():
        return START_S + (time.time() - begun_s) / MINUTE_S * 60

    def govern(fenced):
        stop = threading.Event()
        delivery = Delivery(fenced, settings.receivers)
        wake = delivery.wake
        evaluator = Evaluator(
            Fleet(incidents(4)), chat(QUIET), fenced, settings=settings, wake=wake
        )
        caretaker = Caretaker(fenced, wake=wake)
        delivery.start()
        for each in (evaluator, caretaker):
            loop = {"clock": clock, "cadence_s": MINUTE_S}
            threading.Thread(target=each.run, args=(stop,), kwargs=loop, daemon=True).start()
        print("leads", flush=True)  # noqa: T201 - the test reads it

        def end():
            stop.set()
            delivery.close(0.5)
            print("follows", flush=True)  # noqa: T201

        return end

    print("ready", flush=True)  # noqa: T201
    Leadership(state, lasts_s=1.5, cadence_s=0.2).run(threading.Event(), govern)


if __name__ == "__main__":
    main(*sys.argv[1:])
