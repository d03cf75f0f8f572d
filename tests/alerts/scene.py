"""An incident with all that looks after it: minutes go by, and what receivers are told is read off."""

import json

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.acknowledgement import Acknowledgements
from alerts.caretaker import Caretaker
from alerts.evaluator import Evaluator
from alerts.matcher import matchers_of
from alerts.settings import AlertsSettings
from alerts.silence import Silences, Wish
from alerts.sql_ledger import SqlLedger
from alerts.tables import OutboxRow
from tests.alerts.fleet import START_S, Fleet, chat, outage

__all__ = ["Scene"]

FIRST = {"name": "first", "url": "http://127.0.0.1:9/hook", "allow_private": True}
SECOND = {"name": "second", "url": "http://127.0.0.1:9/hook", "allow_private": True}
THIRD = {"name": "third", "url": "http://127.0.0.1:9/hook", "allow_private": True}
QUIET = "- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, no_data: off}"


class Scene:
    """One promise that is broken from its first minute on, for so many minutes."""

    def __init__(self, state, *, bad=1, good=30, definitions=None, **settings):
        self.state = state
        self.minute = 0
        self.definitions = definitions or chat(QUIET)
        self.settings = AlertsSettings(receivers=(FIRST, SECOND, THIRD), **settings)
        self.fleet = Fleet(outage(0, bad, after=good))
        self.acknowledgements = Acknowledgements(state)
        self.silences = Silences(state)
        self.ledger = SqlLedger(state)
        self.restart()
        self.evaluator.tick(self.now_s)

    @property
    def now_s(self):
        return START_S + 60 * self.minute + 11

    @property
    def alert(self):
        """The page, with its history."""
        page = next(each for each in self.ledger.alerts() if each.severity == "page")
        return self.ledger.alert(page.id)

    def restart(self):
        """Another process: nothing is known but what was written down."""
        # why replaying: there is no past to be asked for, and asking costs most of a short test
        self.evaluator = Evaluator(
            self.fleet, self.definitions, self.state, settings=self.settings, replaying=True
        )
        self.caretaker = Caretaker(self.state)

    def minutes(self, count):
        """So many minutes go by, each judged and looked after."""
        for _ in range(count):
            self.minute += 1
            self.evaluator.tick(self.now_s)
            self.caretaker.tick(self.now_s)
        return self

    def silence(self, *matchers, lasts_s=300, author="ada", reason="we are on it"):
        now_s = int(self.now_s)
        wish = Wish(
            author=author,
            reason=reason,
            matchers=matchers_of(matchers),
            starts_at_s=now_s,
            ends_at_s=now_s + lasts_s,
        )
        return self.silences.create(wish, at_s=now_s)

    def told(self, receiver="first", severity="page"):
        """The events that a receiver is told, in order."""
        with Session(self.state) as session:
            rows = session.scalars(
                select(OutboxRow).where(OutboxRow.receiver == receiver).order_by(OutboxRow.id)
            )
            bodies = [json.loads(row.body) for row in rows]
        return [each["event"] for each in bodies if each["severity"] == severity]

    def happened(self):
        """The history of the page, as words."""
        return [each.event for each in self.alert.history]
