"""A service with slow and failed requests, its GPUs, probes from outside and its sidecars, in a real store."""

import numpy as np
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from domain.distribution import exact
from domain.labels import labels_of
from exporters.engine.otlp import export_request
from exporters.engine.reading import Increment, Latency, Level, Reading
from tests.collector.gpu_fleet import NOW, WELL, fleet
from tests.collector.storing import span, traces, writing

__all__ = [
    "HOSTILE",
    "NOW",
    "SLOWEST",
    "probed",
    "requests",
    "scene",
    "sidecars",
    "together",
    "trace_id",
]

HOSTILE = '"><img src=x onerror="document.title=1">\u202e' + "x" * 80
SLOWEST = 77
"""The number of the request that waited longest."""

_NS = 10**9
_CHAT = {"service": "chat", "replica": "r0", "role": "decode", "pool": "a"}


def trace_id(number):
    return number.to_bytes(16, "big").hex()


def requests(
    number=160,
    *,
    replica="r0",
    service="chat",
    seed=1,
    over_s=3000,
    first=1,
    model="llama",
    region="",
):
    """Spans of an engine and of its clients, one request a few seconds; one in twenty fails."""
    random_ = np.random.default_rng(seed)
    for each in range(first, first + number):
        slow = each == SLOWEST
        queue_s = 6.4 if slow else float(random_.lognormal(-3, 1))
        prompt = int(random_.integers(20, 8000))
        prefill_s, decode_s = 0.02 + prompt / 20_000, float(random_.lognormal(0.5, 0.4))
        end_s = NOW - 20 - over_s * (first + number - 1 - each) / number
        ttft_s = queue_s + prefill_s
        server = span(
            each,
            end_s=end_s,
            lasts_s=ttft_s + decode_s + 0.01,
            gen_ai__request__model=model,
            gen_ai__latency__time_to_first_token=ttft_s,
            gen_ai__latency__e2e=ttft_s + decode_s + 0.004,
            gen_ai__latency__time_in_queue=queue_s,
            gen_ai__latency__time_in_model_prefill=prefill_s,
            gen_ai__latency__time_in_model_decode=decode_s,
            gen_ai__usage__prompt_tokens=prompt,
            gen_ai__usage__completion_tokens=int(random_.integers(2, 400)),
        )
        if each % 20 == 0:
            server.status.code = Status.STATUS_CODE_ERROR
        place = {"cloud.region": region} if region else {}
        told = {"service.name": service, "service.instance.id": replica} | place
        yield traces(server, **told)
        if each % 3 == 0 or slow:
            client = span(
                each,
                end_s=end_s + 0.02,
                lasts_s=ttft_s + decode_s + 0.06,
                kind=Span.SPAN_KIND_CLIENT,
                gen_ai__operation__name="chat",
                gen_ai__server__time_to_first_token=ttft_s + 0.03,
            )
            yield traces(client, **{"service.name": service})


def _reading(own, at_s, **told):
    return export_request(Reading(target=labels_of(own), at_ns=int(at_s * _NS), up=True, **told))


def probed(name="chat", region="eu-west-1", *, reason="", held=False, usd=2.5, seed=1, minutes=60):
    """Probes of one endpoint, one a minute; with a `reason` the last ten fail."""
    own = {"service": name, "region": region, "replica": f"{region}.example", "source": "probe"}
    random_ = np.random.default_rng(seed)
    for minute in range(minutes, 0, -1):
        at_s = NOW - 60 * minute + 30
        ended = reason if reason and minute <= 10 else "ok"
        fine = ended == "ok"
        values = {"dns": 0.0012, "connect": 0.0009, "tls": 0.004, "first_byte": 0.2, "ttft": 0.22}
        values = {n: v * random_.lognormal(0, 0.2) for n, v in values.items()} if fine else {}
        yield _reading(
            own,
            at_s,
            latencies=tuple(
                Latency(
                    metric=metric,
                    labels=labels_of(own),
                    start_at_ns=int((at_s - 1) * _NS),
                    distribution=exact(np.array([value])),
                )
                for metric, value in values.items()
            ),
            increments=(
                Increment(
                    metric="probes",
                    labels=labels_of({**own, "reason": ended}),
                    start_at_ns=int((at_s - 1) * _NS),
                    by=1.0,
                ),
            ),
            levels=tuple(_levels(own, ended, held=held, usd=usd)),
        )


def _levels(own, ended, *, held, usd):
    fine = ended == "ok"
    why = labels_of({**own, "reason": "" if fine else ended})
    yield Level(metric="up", labels=why, value=float(fine))
    place = labels_of({**own, "reason": "gateway.example" if held else ""})
    yield Level(metric="buffering", labels=place, value=float(held))
    told = {"probe_spending": usd, "probe_month_tokens": 90_000.0}
    told |= {"probe_allowance": 10.0} if usd else {"probe_token_allowance": 1e6}
    for metric, value in told.items():
        yield Level(metric=metric, labels=labels_of(own), value=value)


def sidecars(*, lost=0.0, waits_bytes=0.0, spent_usd=0.4):
    """What waits at them, what they lost, and what CloudWatch cost."""
    at_s = NOW - 40
    own = {"service": "chat", "replica": "r0", "source": "page"}
    waiting = (("spooled_bytes", waits_bytes), ("spooled_age", 900.0 if waits_bytes else 0.0))
    levels = tuple(Level(metric=name, labels=labels_of(own), value=v) for name, v in waiting)
    gone = Increment(
        metric="exports_dropped",
        labels=labels_of({**own, "reason": "spool_full"}),
        start_at_ns=int((at_s - 1) * _NS),
        by=lost,
    )
    yield _reading(own, at_s, levels=levels, increments=(gone,) if lost else ())
    account = labels_of({"namespace": "123456789012", "region": "eu-west-1", "source": "page"})
    cost = (("cloudwatch_spending", spent_usd), ("cloudwatch_allowance", 1.0))
    levels = tuple(Level(metric=name, labels=account, value=v) for name, v in cost)
    yield _reading(dict(account), at_s, levels=levels)


def together(exports):
    """Many exports as one."""
    first, *others = exports
    for each in others:
        first.MergeFrom(each)
    return first


def scene(folder, *, number=160, trouble=False, hostile=False):
    """All of it; with `trouble` something is wrong with each part, with `hostile` the names are."""
    name = HOSTILE if hostile else "chat"
    serving = (WELL, {"gpu_energy": 9000}, [{**_CHAT, "service": name}])
    engine = {"requests_running": 14, "requests_waiting": 9, "kv_cache_usage": 0.93}
    fleet(folder, [lambda _: serving], [({**_CHAT, "service": name}, lambda _: (engine, {}))],
          length_s=3400, every_s=120)  # fmt: skip
    with writing(folder, now=lambda: float(NOW)) as writer:
        writer.traces(together(requests(number, service=name)))
        ways = [("eu-west-1", {}), ("us-east-1", {"held": True, "usd": 9.5})]
        ways += [("ap-south-1", {"reason": "http_429"})] if trouble else []
        for seed, (region, more) in enumerate(ways):
            writer.metrics(together(probed(name, region, seed=seed, **more)))
        bad = {"lost": 12.0, "waits_bytes": 5e6, "spent_usd": 0.95} if trouble else {}
        writer.metrics(together(sidecars(**bad)))
        writer.settle()
