"""kill -9 at any instant, again and again: no export lost uncounted, none counted twice."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from tests.exporters.delivery.outboxes import opened
from tests.paths import ROOT

SMALL, LARGE = 64 * 1024, 64 * 1024 * 1024


def lived_and_died(folder, arrivals, *, max_bytes, away, seed, for_s):
    command = [sys.executable, "-m", "tests.exporters.delivery.spooling_process"]
    with subprocess.Popen(
        [*command, str(folder), str(arrivals), str(max_bytes), away, str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout.readline() == b"ready\n", process.stderr.read()
        time.sleep(for_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def arrived(path):
    """Exports by their number, and losses by when they were told: a second copy counts once."""
    exports, losses = {}, {}
    for line in path.read_bytes().split(b"\n"):
        try:
            said = json.loads(line)
        except ValueError:
            continue  # killed in the middle of "sending" it
        if said["lost"]:
            losses[said["at_ns"]] = sum(n for _, _, n in said["lost"])
        else:
            number, since, until, _ = json.loads(gzip.decompress(bytes.fromhex(said["packed"])))
            assert exports.setdefault(number, (since, until)) == (since, until)
    return exports, losses


def sent_at_last(folder, arrivals, max_bytes):
    """What the last process left arrives in the end."""
    box = opened(folder, max_bytes=max_bytes)
    with arrivals.open("ab") as file:
        file.write(b"\n")
        while records := box.take(1_000_000):
            for record in records:
                said = {"lost": record.lost, "at_ns": record.at_ns, "packed": record.packed.hex()}
                file.write(json.dumps(said).encode() + b"\n")
                box.settle()
            box.release()
    box.close()


@pytest.mark.parametrize(
    ("max_bytes", "away"), [(LARGE, "no"), (LARGE, "yes"), (SMALL, "yes"), (SMALL, "no")]
)
@pytest.mark.parametrize("seed", range(int(os.environ.get("KILL_SEEDS", "1"))))
def test_killed_at_any_instant_every_export_arrives_once_or_is_counted(
    tmp_path, max_bytes, away, seed
):
    rng = random.Random(seed)  # noqa: S311 - no secret
    folder, arrivals = tmp_path / "spool", tmp_path / "arrivals"
    arrivals.touch()
    for life in range(6):
        lived_and_died(
            folder, arrivals, max_bytes=max_bytes, away=away, seed=life, for_s=rng.random() * 0.4
        )
    sent_at_last(folder, arrivals, max_bytes)
    exports, losses = arrived(arrivals)

    last = max(exports)
    assert len(exports) + sum(losses.values()) == last
    assert max_bytes == SMALL or not losses
    assert (max_bytes, away) != (SMALL, "yes") or losses  # the spool was full indeed
    for (number, (_, until)), (following, (since, _)) in pairwise(sorted(exports.items())):
        assert until <= since
        assert until == since or following > number + 1
