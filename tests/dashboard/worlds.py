"""Fleets as they are found at night: healthy, paging, coarse, unseen, empty, and hostile."""

from fractions import Fraction

import numpy as np

from collector.query import Replica
from domain.indicator import LatencyIndicator
from domain.labels import labels_of
from domain.objective import Objective
from tests.dashboard.memory import Gauge, Stream, World

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "x" * 10_000,
    "שלום-مرحبا",
    "🦙-prod-🚀",
    "a/b?c=d&e#f",
)
STAGES = {"overhead": 0.02, "queue": 0.05, "prefill": 0.22, "decode": 4.0}
HOURS = 2
TICKET = (
    "batch-e2e has a ticket since 01:40 UTC: 120 to 300 of 3600 requests in the last 1 d took "
    "more than 9.5 s; the promise is at most 4 %."
)


def objective(name, metric, threshold, service, target="0.99"):
    where = labels_of({"service": service})
    indicator = LatencyIndicator(metric=metric, threshold_s=Fraction(threshold), where=where)
    return Objective(name=name, indicator=indicator, target=Fraction(target))


def serve(
    world,
    service,
    replicas,
    *,
    per_min=20,
    fault=None,
    coarse=False,
    silent=(),
    client=False,
    seed=1,
):
    """Two hours of traffic; `fault` = (seconds before the end, stage, factor); `silent` = gaps."""
    random = np.random.default_rng(seed)
    now_s = world.now_s
    world.replicas[service] = []
    world.newest_at_s[service] = now_s - 7
    for number, replica in enumerate(replicas):
        labels = labels_of(
            {
                "service": service,
                "replica": replica,
                "model": "llama-3.3-70b" if number % 2 else "llama-3.1-8b",
                "role": "both",
                "region": "eu-west-1" if number % 3 else "us-east-1",
            }
        )
        at_s = np.sort(now_s - random.random(per_min * 60 * HOURS) * 3600 * HOURS)
        for since_s, until_s in silent:
            at_s = at_s[(at_s < now_s - since_s) | (at_s >= now_s - until_s)]
        _streams(
            world,
            labels,
            at_s,
            random,
            number=number,
            fault=fault,
            coarse=coarse,
            client=client,
        )
        for gauge, value in (("requests_running", 14 + number), ("requests_waiting", number * 3)):
            world.gauges.append(Gauge(metric=gauge, labels=labels, at_s=now_s - 5, value=value))
        usage = 0.41 + 0.11 * (number % 5)
        world.gauges.append(
            Gauge(metric="kv_cache_usage", labels=labels, at_s=now_s - 5, value=usage)
        )
        world.replicas[service].append(Replica(labels=labels, last_seen_at_s=now_s - 5, up=True))
        world.unfinished[replica] = 3 + number
    world.unfinished[service] = sum(3 + number for number in range(len(replicas)))


def _streams(world, labels, at_s, random, *, number, fault, coarse, client):
    values = {}
    for stage, mean_s in STAGES.items():
        values[stage] = mean_s * random.lognormal(-0.125, 0.5, len(at_s)) * (1 + 0.15 * number)
    if fault:
        before_s, stage, factor = fault
        late = at_s > world.now_s - before_s
        values[stage] = np.where(late, values[stage] * factor, values[stage])
    values["ttft"] = values["overhead"] / 2 + values["queue"] + values["prefill"]
    values["e2e"] = sum(values[stage] for stage in STAGES)
    values["tpot"] = values["decode"] / 180
    values["itl"] = values["decode"] / 180 * random.lognormal(0, 0.3, len(at_s))
    if client:
        values["network"] = 0.03 * random.lognormal(0, 0.6, len(at_s))
    for metric, value_s in values.items():
        world.streams.append(
            Stream(metric=metric, labels=labels, at_s=at_s, value_s=value_s, coarse=coarse)
        )


def names(prefix, number):
    return [f"{prefix}-{each}" for each in range(number)]


def healthy(now_s):
    world = World(now_s=now_s)
    serve(world, "chat", names("vllm-chat", 3), client=True)
    serve(world, "code", names("vllm-code", 2), seed=2)
    world.objectives = [
        (objective("chat-ttft", "ttft", "3/2", "chat"), ""),
        (objective("chat-tpot", "tpot", "1/10", "chat"), ""),
        (objective("code-ttft", "ttft", "3/2", "code"), ""),
        (objective("code-e2e", "e2e", "30", "code", "0.95"), ""),
    ]
    return world


def night(now_s):
    """One of everything."""
    world = World(now_s=now_s)
    serve(world, "chat", names("vllm-chat", 4), client=True, fault=(1500, "queue", 45))
    serve(world, "batch", names("tgi-batch", 3), coarse=True, seed=3, fault=(2400, "prefill", 5))
    serve(world, "voice", names("voice", 2), seed=4, silent=[(7200, 0)])
    serve(world, "search", names("search", 2), seed=5, silent=[(1500, 0)])
    serve(world, "code", names("vllm-code", 2), seed=2, silent=[(2700, 1800)])
    world.newest_at_s["search"] = now_s - 1500
    world.replicas["search"] = [
        Replica(labels=each.labels, last_seen_at_s=now_s - 1500, up=True)
        for each in world.replicas["search"]
    ]
    first = world.replicas["chat"][0]
    world.replicas["chat"][0] = Replica(labels=first.labels, last_seen_at_s=now_s - 4, up=False)
    world.unobserved = {"search": [(now_s - 1500, now_s)], "code": [(now_s - 2700, now_s - 1800)]}
    told = (
        "chat-ttft pages since 02:09 UTC: 1990 of 4800 requests in the last 1 h waited more than "
        "1.5 s for the first token (41.5 %); the promise is at most 1 %."
    )
    world.objectives = [
        (objective("code-ttft", "ttft", "3/2", "code"), ""),
        (objective("voice-ttft", "ttft", "3/10", "voice"), ""),
        (objective("chat-ttft", "ttft", "3/2", "chat"), told),
        (objective("search-ttft", "ttft", "1", "search"), ""),
        (
            objective("batch-e2e", "e2e", "19/2", "batch", "0.96"),
            TICKET,
        ),
        (objective("chat-tpot", "tpot", "1/10", "chat"), ""),
    ]
    return world


def hostile(now_s):
    """Names that nobody should choose."""
    world = World(now_s=now_s)
    for number, name in enumerate(HOSTILE):
        serve(world, name, [f"{name}-{each}" for each in range(2)], per_min=4, seed=number)
        world.objectives.append((objective(name, "ttft", "3/2", name), f"{name} is quiet."))
    return world


def empty(now_s):
    return World(now_s=now_s)


def unpromised(now_s):
    world = World(now_s=now_s)
    serve(world, "chat", names("vllm-chat", 2))
    return world


WORLDS = {each.__name__: each for each in (healthy, night, hostile, empty, unpromised)}
