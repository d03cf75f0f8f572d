"""An hour of eight GPUs in a real store: one lost, one unseen for a while, one held down, one in MIG.

They serve chat: engine-0 decodes, engine-1 stands still on GPUs at rest, one GPU of engine-3 is slow.
"""

from domain.labels import labels_of
from exporters.engine.otlp import export_request
from exporters.engine.reading import Increment, Level, Reading
from tests.collector.storing import writing

__all__ = ["EVERY_S", "an_hour", "uuid"]

EVERY_S = 20
_GIB = 1 << 30


def uuid(place):
    return f"GPU-{place:08x}-1111-2222-3333-{place:012x}"


def _level(metric, value, gpu, **labels):
    return Level(metric=metric, labels=labels_of({"gpu_uuid": gpu, **labels}), value=float(value))


def _board(place, ago_s):
    """What one board says so long before the end."""
    gpu = uuid(place)
    yield _level("gpu_info", 1, gpu, gpu_name="NVIDIA H100 80GB HBM3")
    yield _level("gpu_index", place, gpu)
    if place == 5 and ago_s <= 900:
        yield _level("gpu_up", 0, gpu)
        yield _level("gpu_down", 1, gpu, reason="gpu_lost")
        return
    yield _level("gpu_up", 1, gpu)
    work = [0.92, 0.88, 0.0, 0.95, 0.5, 0.7, 0.31, 0.12][place]
    if place == 6:
        work = 0.15 + 0.8 * (ago_s // 300 % 2)
    if place == 2:
        yield from _asleep(gpu)
        return
    yield _level("gpu_busy", min(work * 1.2, 1.0), gpu)
    if place != 4:
        yield _level("gpu_sm_active", work, gpu)
    yield _level("gpu_memory_total", 79.6 * _GIB, gpu)
    yield _level("gpu_memory_used", (4 + 68 * work) * _GIB, gpu)
    yield _level("gpu_power", 70 + 560 * work, gpu)
    yield _level("gpu_power_limit", 700, gpu)
    yield _level("gpu_temperature", 34 + 30 * work, gpu)
    yield _level("gpu_sm_clock", 1.2e9 if place == 6 else 1.98e9, gpu)
    if place < 4:
        yield _level("gpu_dram_bandwidth", 0.9 * work, gpu)
        yield _level("gpu_tensor_active", 0.4 * work, gpu)
    if place == 4:
        yield from _instance(gpu)


def _asleep(gpu):
    """Weights are loaded, requests are there, and no kernel runs."""
    for metric, value in (
        ("gpu_busy", 0.0),
        ("gpu_memory_total", 79.6 * _GIB),
        ("gpu_memory_used", 70 * _GIB),
        ("gpu_power", 118),
        ("gpu_power_limit", 700),
        ("gpu_temperature", 36),
    ):
        yield _level(metric, value, gpu)


def _instance(board):
    for place in range(2):
        gpu = f"MIG-{place:08x}-aaaa"
        name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
        yield _level("gpu_info", 1, gpu, gpu_name=name, gpu_parent=board)
        yield _level("gpu_memory_total", 39 * _GIB, gpu)
        yield _level("gpu_memory_used", 20 * _GIB, gpu)
        yield _level("gpu_sm_active", 0.4, gpu)


def _serves(place):
    """GPUs 0 and 1 are engine-0's, 2 is engine-1's, 5 nobody's, the last two engine-3's."""
    return Level(
        metric="gpu_serves",
        labels=labels_of({"gpu_uuid": uuid(place), **_engine(_ENGINES[place])}),
        value=1.0,
    )


_ENGINES = {0: 0, 1: 0, 2: 1, 3: 2, 6: 3, 7: 3}


def _engine(number):
    pool = "b" if number == 1 else "a"
    return {"service": "chat", "replica": f"engine-{number}", "role": "decode", "pool": pool}


def _engines(at_ns, ago_s):
    """What the engines' sidecars say; engine-1 has made no token for ten minutes."""
    start_ns = at_ns - EVERY_S * 10**9
    for number in range(4):
        tokens = 0.0 if number == 1 and ago_s <= 600 else 900.0 * EVERY_S
        increments = tuple(
            Increment(metric=metric, labels=(), start_at_ns=start_ns, by=by)
            for metric, by in (("generation_tokens", tokens), ("prompt_tokens", tokens / 3))
        )
        levels = (
            Level(metric="requests_running", labels=(), value=24.0),
            Level(metric="kv_cache_usage", labels=(), value=0.97 if number == 1 else 0.55),
            Level(metric="up", labels=(), value=1.0),
        )
        own = labels_of(_engine(number))
        yield Reading(target=own, at_ns=at_ns, up=True, levels=levels, increments=increments)


def _increments(at_ns, ago_s):
    start_ns = at_ns - EVERY_S * 10**9
    held_s = 0.41 * EVERY_S if ago_s <= 1800 else 0.0
    for place, cause, by in ((3, "hw_thermal", held_s), (0, "sw_power_cap", 0.12 * EVERY_S)):
        labels = labels_of({"gpu_uuid": uuid(place), "reason": cause})
        yield Increment(metric="gpu_throttle", labels=labels, start_at_ns=start_ns, by=by)
    for place in range(8):
        if place != 5 or ago_s > 900:
            labels = labels_of({"gpu_uuid": uuid(place)})
            by = EVERY_S * (118.0 if place == 2 else 500.0)
            yield Increment(metric="gpu_energy", labels=labels, start_at_ns=start_ns, by=by)
    if ago_s == 900:
        labels = labels_of({"gpu_uuid": uuid(5), "reason": "79"})
        yield Increment(metric="gpu_xid_errors", labels=labels, start_at_ns=start_ns, by=1.0)


def an_hour(folder, now_s, *, drivers=(), length_s=3600):
    """Fill a store; nobody looked at GPU 7 from 30 to 20 minutes before the end."""
    target = labels_of({"node": "node-1"})
    with writing(folder, now=lambda: float(now_s)) as writer:
        for ago_s in range(length_s, 0, -EVERY_S):
            at_ns = (now_s - ago_s) * 10**9
            levels = [Level(metric="gpu_driver_up", labels=(), value=1.0)]
            for place in range(8):
                if place != 7 or not 1200 <= ago_s < 1800:
                    levels += _board(place, ago_s)
                levels += [_serves(place)] if place in _ENGINES else []
            reading = Reading(
                target=target,
                at_ns=at_ns,
                up=True,
                levels=tuple(levels),
                increments=tuple(_increments(at_ns, ago_s)),
            )
            writer.metrics(export_request(reading))
            for told in _engines(at_ns, ago_s):
                writer.metrics(export_request(told))
        for node, reason in drivers:
            own = labels_of({"reason": reason})
            reading = Reading(
                target=labels_of({"node": node}),
                at_ns=(now_s - 10) * 10**9,
                up=False,
                levels=(
                    Level(metric="gpu_driver_up", labels=(), value=0.0),
                    Level(metric="gpu_driver_down", labels=own, value=1.0),
                ),
            )
            writer.metrics(export_request(reading))
        writer.settle()
