"""Lives of a process that judges and tells, each ended by SIGKILL at a random statement or post.

Each life is a fork of one process that holds no connection, so that two hundred of them cost
seconds; what it knows is what the lives before it wrote down. An incident is half an hour of outage
and what follows; then comes the next one.
"""

import collections
import gc
import itertools
import json
import os
import random
import signal
import sys

import httpx
from sqlalchemy import Engine, event

from alerts.caretaker import Caretaker
from alerts.courier import Courier
from alerts.evaluator import Evaluator
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from tests.alerts.fleet import START_S, Fleet, chat, outage

MINUTES = 30 + 36
LONGEST = 70
"""Statements and commits of a life at most; half of it makes a minute or two."""

POSTS = 0.2
"""The share of lives that end at their first post, if they come to one: there are few."""


def objective(number):
    return chat(f"- {{phrase: 'p99 ttft <= 1.5s over 7d', name: chat{number}, no_data: off}}")


def live(state, webhook, number):
    """From where the last life ended to the end of the incident."""
    settings = AlertsSettings(receivers=(webhook.settings,))
    evaluator = Evaluator(
        Fleet(outage(0, 30, after=MINUTES - 30)), objective(number), state, settings=settings
    )
    caretaker, courier = Caretaker(state), Courier(state, webhook)
    standing = SqlLedger(state).standing(f"chat{number}", spark_s=0)
    reached = (standing.evaluated_at_s - START_S) // 60 if standing else 0
    # why one more: what the last life did not send is due when its claim has run out
    for minute in range(reached, MINUTES + 2):
        now_s = START_S + 60 * minute + 11
        evaluator.tick(min(now_s, START_S + 60 * MINUTES + 11))
        caretaker.tick(now_s)
        courier.deliver(lambda at_s=now_s: at_s)


def kill_at(point, told, *, post):
    """From now on the process is killed at its `point`-th statement or commit, or at this post."""
    points = itertools.count(1)

    def kill(kind):
        os.write(told, kind.encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def pass_by(kind):
        if next(points) == point:
            kill(kind)

    event.listen(Engine, "before_cursor_execute", lambda *_: pass_by("statement"))
    event.listen(Engine, "commit", lambda *_: pass_by("commit"))
    handle = httpx.HTTPTransport.handle_request

    def handled(transport, request):
        if post == "before a post":
            kill(post)
        answer = handle(transport, request)
        if post == "after a post":
            kill(post)
        return answer

    httpx.HTTPTransport.handle_request = handled


def life(state, webhook, number, *, point, post):
    """Where it was killed, or None if it lived to the end."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kill_at(point, told, post=post)
            live(state, webhook, number)
        except BaseException:  # noqa: BLE001 - why all: a child must never run on as a second parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(told)
    _, status = os.waitpid(child, 0)
    with os.fdopen(heard) as said:
        kind = said.read()
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit("a life ended by an error")
    return kind or None


def main(folder, url, kills, seed):
    chance = random.Random(int(seed))  # noqa: S311 - no secret
    state = open_state(f"sqlite:///{folder}/alerts.db")
    webhook = prepared(state, url)
    killed = collections.Counter()
    number = 1
    while killed.total() < int(kills):
        post = chance.choice(["before a post", "after a post"]) if chance.random() < POSTS else None
        point = chance.randint(1, LONGEST) if post is None else 2 * LONGEST
        kind = life(state, webhook, number, point=point, post=post)
        if kind is None:
            number += 1
        else:
            killed[kind] += 1
    live(state, webhook, number)  # the last incident, to its end
    print(json.dumps({"incidents": number + 1, "killed": killed}))  # noqa: T201 - the test reads it


def prepared(state, url):
    """After a first incident, undisturbed: what is compiled once is inherited by every life."""
    pager = WebhookSettings(name="pager", url=url, allow_private=True)
    live(state, Webhook(pager), 0)
    state.dispose()
    gc.collect()
    gc.freeze()
    gc.disable()
    return Webhook(pager)


if __name__ == "__main__":
    main(*sys.argv[1:])
