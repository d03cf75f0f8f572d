"""A process that lives through a 40-minute incident at full speed, to be killed at any point."""

import sys
import time

from alerts.delivery import Delivery
from alerts.evaluator import Evaluator
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from tests.alerts.fleet import START_S, Fleet, chat, outage

END_S = START_S + 160 * 60

if __name__ == "__main__":
    database, url = sys.argv[1:]
    state = open_state(f"sqlite:///{database}")
    receiver = {"name": "pager", "url": url, "allow_private": True}
    settings = AlertsSettings(receivers=(receiver,))
    delivery = Delivery(state, settings.receivers)
    delivery.start()
    evaluator = Evaluator(
        Fleet(outage(60, 40, after=60)), chat(), state, settings=settings, wake=delivery.wake
    )
    standings = SqlLedger(state).standings(spark_s=0)
    now_s = standings[0].evaluated_at_s if standings else START_S
    print("ready", flush=True)  # noqa: T201 - the test reads it
    while now_s < END_S:
        now_s += 60
        evaluator.tick(now_s + 11)
        time.sleep(0.01)
    print("done", flush=True)  # noqa: T201
    time.sleep(60)
