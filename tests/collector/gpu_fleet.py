"""GPUs and the engines on them in a real store, told every twenty seconds by what a test says of them."""

from domain.labels import labels_of
from exporters.engine.otlp import export_request
from exporters.engine.reading import Increment, Level, Reading
from tests.collector.storing import NOW_S, writing

__all__ = ["EVERY_S", "NOW", "WELL", "fleet", "gpu_id"]

NOW = int(NOW_S) // 60 * 60
EVERY_S = 20
_NS = 10**9

WELL = {
    "gpu_up": 1,
    "gpu_index": 0,
    "gpu_busy": 0.9,
    "gpu_sm_active": 0.8,
    "gpu_tensor_active": 0.4,
    "gpu_dram_bandwidth": 0.6,
    "gpu_memory_used": 60e9,
    "gpu_memory_total": 80e9,
    "gpu_power": 500,
    "gpu_power_limit": 700,
    "gpu_sm_clock": 1.98e9,
    "gpu_temperature": 60,
}
"""What a GPU at work says of itself; counters apart."""


def gpu_id(place):
    return f"GPU-{place:04d}"


def fleet(folder, gpus, engines=(), *, length_s=900, node="n1", every_s=EVERY_S):
    """`gpus`: by place, a function of seconds before the end to (levels, counters, serves).

    `engines`: (labels, function of seconds before the end to (levels, counters)). A counter is
    named `metric` or `metric/reason`; None instead of a pair says nothing at all.
    """
    with writing(folder, now=lambda: float(NOW)) as writer:
        for ago_s in range(length_s, 0, -every_s):
            at_ns = (NOW - ago_s) * _NS
            levels, increments = [], []
            for place, tell in enumerate(gpus):
                if (told := tell(ago_s)) is not None:
                    _gpu(place, told, at_ns - every_s * _NS, levels, increments)
            own = labels_of({"node": node})
            writer.metrics(export_request(_reading(own, at_ns, levels, increments)))
            for labels, tell in engines:
                if (told := tell(ago_s)) is not None:
                    writer.metrics(export_request(_engine(labels, told, at_ns, every_s)))
        writer.settle()


def _gpu(place, told, start_ns, levels, increments):
    values, counters, serves, *more = told
    uuid = gpu_id(place)
    own = labels_of({"gpu_uuid": uuid, "gpu_name": "H100", **(more[0] if more else {})})
    levels.append(Level(metric="gpu_info", labels=own, value=1.0))
    for name, value in values.items():
        levels.append(_level(name, value, uuid))
    for labels in serves:
        known = labels_of({"gpu_uuid": uuid, **labels})
        levels.append(Level(metric="gpu_serves", labels=known, value=1.0))
    for name, by in counters.items():
        metric, _, reason = name.partition("/")
        own = labels_of({"gpu_uuid": uuid, "reason": reason})
        increments.append(Increment(metric=metric, labels=own, start_at_ns=start_ns, by=float(by)))


def _level(name, value, uuid):
    metric, _, reason = name.partition("/")
    own = labels_of({"gpu_uuid": uuid, "reason": reason})
    return Level(metric=metric, labels=own, value=float(value))


def _engine(labels, told, at_ns, every_s):
    values, counters = told
    return _reading(
        labels_of(labels),
        at_ns,
        [Level(metric=name, labels=(), value=float(value)) for name, value in values.items()],
        [
            Increment(metric=name, labels=(), start_at_ns=at_ns - every_s * _NS, by=float(by))
            for name, by in counters.items()
        ],
    )


def _reading(target, at_ns, levels, increments):
    return Reading(
        target=target, at_ns=at_ns, up=True, levels=tuple(levels), increments=tuple(increments)
    )
