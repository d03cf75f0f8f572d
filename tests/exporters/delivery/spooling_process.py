"""A source, an outbox and a sender in a process that is there to be killed.

The source is a counter that grows with time. Each export tells what it grew by since the one before
and carries its number; the memo is the counter. What the sender "sends" it appends to a file.
"""

import json
import os
import random
import sys
import threading
import time
from pathlib import Path

from exporters.delivery.export import Export
from exporters.delivery.outbox import Outbox

OWNER = (("service", "chat"),)


def count_up(box, size):
    memo = box.memo(OWNER)
    number, before = json.loads(memo) if memo else (0, 0)
    rng = random.Random(number)  # noqa: S311 - no secret
    while True:
        now = time.monotonic_ns()
        if not before:
            before, number = now, 0
        number += 1
        body = json.dumps([number, before, now, rng.randbytes(rng.randrange(size)).hex()])
        box.put(
            Export(owner=OWNER, at_ns=now, body=body.encode(), memo=b"[%d, %d]" % (number, now))
        )
        before = now
        time.sleep(rng.random() * 0.002)


def send(box, collector, seed):
    """In batches; now and then the collector is away for a moment."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    while True:
        records = box.take(4000)
        if rng.random() < 0.5:
            for record in records:
                said = {"lost": record.lost, "at_ns": record.at_ns, "packed": record.packed.hex()}
                os.write(collector, json.dumps(said).encode() + b"\n")
            for _ in records:
                box.settle()
        box.release()
        time.sleep(rng.random() * 0.005)


def main(folder, arrivals, max_bytes, away, seed):
    box = Outbox(Path(folder), max_bytes=int(max_bytes), max_age_s=3600)
    collector = os.open(arrivals, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    print("ready", flush=True)  # noqa: T201
    if away == "no":
        threading.Thread(target=send, args=(box, collector, int(seed)), daemon=True).start()
    count_up(box, 1500)


if __name__ == "__main__":
    main(*sys.argv[1:])
