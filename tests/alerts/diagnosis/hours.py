"""Random healthy hours in one real store: a service each, with fleet, load, lengths and a life of its own."""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from alerts.change import Change
from alerts.definition import load
from alerts.diagnosis.inquest import diagnose, diagnose_window
from alerts.diagnosis.promises import promised_by
from alerts.diagnosis.windows import around
from collector.query import Window
from collector.reader import StoreReader
from tests.collector.storing import gauge_of, metrics, span, sum_of, traces, writing

__all__ = ["LIVES", "Hour", "blamed", "end_s", "hour_of", "promises", "written"]

BEGIN_S = 1_800_000_000
CALM_S, LOOKED_S = 900, 600
LIVES = ("plain", "restart", "deploy", "night", "long prompts", "wave", "split", "scale-out")
_SCRAPE_S, _CHUNK_S = 60, 300
_PAGE = {
    "up": "up",
    "running": "requests_running",
    "waiting": "requests_waiting",
    "kv": "kv_cache_usage_ratio",
    "preempted": "preemptions_total",
    "prompts": "prompt_tokens_total",
    "cpu": "process_cpu_seconds_total",
}


@dataclass(frozen=True, kw_only=True)
class Hour:
    """What happened in it, who served, and at which rate a second each replica."""

    service: str
    life: str
    replicas: tuple
    rate_hz: float
    ttft_s: float
    token_s: float
    prompt: float
    output: float


def end_s():
    return BEGIN_S + CALM_S + LOOKED_S


def hour_of(seed):
    draw = np.random.default_rng(seed)
    life = LIVES[seed % len(LIVES)]
    count = int(draw.integers(2, 6))
    roles = ["both"] * count
    if life == "split":
        roles = ["prefill", "prefill", *["decode"] * count]
    return Hour(
        service=f"s{seed}",
        life=life,
        replicas=tuple((f"s{seed}-{role}-{at}", role) for at, role in enumerate(roles)),
        rate_hz=float(draw.uniform(0.03, 0.16)),
        ttft_s=float(draw.uniform(0.08, 0.4)),
        token_s=float(draw.uniform(0.008, 0.03)),
        prompt=float(draw.uniform(200, 3000)),
        output=float(draw.uniform(40, 400)),
    )


def promises(hour):
    """Kept with room to spare: three times what is usual."""
    return load(
        "objectives:\n"
        f'  - {{name: {hour.service}-ttft, phrase: "p99 ttft <= {hour.ttft_s * 8:.3f}s over 30d'
        f' where service={hour.service}"}}\n'
        f'  - {{name: {hour.service}-tpot, phrase: "p95 tpot <= {hour.token_s * 3:.4f}s over 30d'
        f' where service={hour.service}"}}\n'
    )


def _alive(hour, name, at_s):
    """Whether a replica serves: deploys replace it, restarts and scale-outs interrupt or add it."""
    since_s, last = at_s - BEGIN_S - CALM_S, name == hour.replicas[-1][0]
    match hour.life:
        case "restart":
            return not (last and 200 <= since_s < 290)
        case "scale-out":
            return not last or since_s >= 200
        case _:
            return True


def _version(hour, at_s):
    return "v2" if hour.life == "deploy" and at_s > end_s() - 300 else "v1"


def _times(hour, draw):
    """When requests end; nights have none while they are looked at."""
    whole_s = CALM_S + LOOKED_S
    servers = [each for each in hour.replicas if each[1] != "prefill"]
    at_s = np.sort(draw.random(draw.poisson(hour.rate_hz * len(servers) * whole_s)) * whole_s)
    if hour.life == "night":
        at_s = at_s[at_s < CALM_S * draw.uniform(0.3, 0.9)]
    if hour.life == "wave":
        at_s = at_s[draw.random(len(at_s)) < 0.65 + 0.35 * np.sin(at_s / 600)]
    return BEGIN_S + at_s


def _spans(hour, draw):
    servers = [name for name, role in hour.replicas if role != "prefill"]
    for number, at_s in enumerate(_times(hour, draw).tolist()):
        alive = [name for name in servers if _alive(hour, name, at_s)]
        name = alive[int(draw.integers(len(alive)))]
        long = hour.life == "long prompts" and draw.random() < 0.1
        prompt = hour.prompt * draw.lognormal(-0.1, 0.5) * (6 if long else 1)
        output = int(max(hour.output * draw.lognormal(-0.1, 0.5), 2))
        filled_s = hour.ttft_s * 0.8 * draw.lognormal(-0.05, 0.3) * (2.5 if long else 1)
        queue_s = hour.ttft_s * 0.05 * draw.lognormal(0, 0.6)
        decode_s = hour.token_s * draw.lognormal(-0.02, 0.15) * (output - 1)
        e2e_s = queue_s + filled_s + decode_s + 0.003
        identity = int(hour.service[1:]) * 1_000_000 + number + 1
        server = span(
            identity,
            end_s=at_s,
            lasts_s=e2e_s,
            gen_ai__latency__time_to_first_token=queue_s + filled_s + 0.002,
            gen_ai__latency__e2e=e2e_s,
            gen_ai__latency__time_in_queue=queue_s,
            gen_ai__latency__time_in_model_prefill=filled_s,
            gen_ai__latency__time_in_model_decode=decode_s,
            gen_ai__usage__prompt_tokens=int(prompt),
            gen_ai__usage__completion_tokens=output,
            stagewatch__model_version=_version(hour, at_s),
        )
        yield at_s, name, server


def _pages(hour, draw, since_s, until_s):
    """What engines' pages would say, every minute."""
    for name, _ in hour.replicas:
        made = {name: Metric(name=f"stagewatch_{full}") for name, full in _PAGE.items()}
        calm = hour.life == "night" and since_s >= BEGIN_S + CALM_S
        load = 0.0 if calm else hour.rate_hz * (hour.ttft_s + hour.token_s * hour.output)
        for at_s in range(since_s, until_s, _SCRAPE_S):
            if not _alive(hour, name, at_s):
                continue
            gauge_of(made["up"], 1.0, at_s=at_s)
            gauge_of(made["running"], float(draw.poisson(load)), at_s=at_s)
            gauge_of(made["waiting"], float(load and draw.random() < 0.05), at_s=at_s)
            gauge_of(made["kv"], float(draw.uniform(0.05, 0.7)), at_s=at_s)
            sum_of(made["preempted"], 0.0, start_s=at_s - _SCRAPE_S, end_s=at_s)
            sum_of(made["prompts"], load * 900, start_s=at_s - _SCRAPE_S, end_s=at_s)
            sum_of(made["cpu"], 0.2 * _SCRAPE_S, start_s=at_s - _SCRAPE_S, end_s=at_s)
        yield metrics(*made.values(), **_resource(hour, name), **{"stagewatch.source": "page"})


def _resource(hour, name):
    role = dict(hour.replicas)[name]
    return {
        "service.name": hour.service,
        "service.instance.id": name,
        "stagewatch.pool": f"{hour.service}-{role}",
        "stagewatch.role": role,
        "stagewatch.use_case": "chat",
    }


def written(folder, seeds):
    """One store in which all of these hours were lived at once, as it came in."""
    hours = [hour_of(seed) for seed in seeds]
    draws = [np.random.default_rng((seed, 1)) for seed in seeds]
    spans = [
        sorted(_spans(h, d), key=lambda each: each[0]) for h, d in zip(hours, draws, strict=True)
    ]
    now = [BEGIN_S]
    with writing(folder, now=lambda: float(now[0])) as writer:
        for since_s in range(BEGIN_S, end_s(), _CHUNK_S):
            now[0] = since_s + _CHUNK_S + 2
            served, scraped = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
            for hour, draw, told in zip(hours, draws, spans, strict=True):
                for each in _traced(hour, told, since_s, since_s + _CHUNK_S):
                    served.MergeFrom(each)
                for each in _pages(hour, draw, since_s, since_s + _CHUNK_S):
                    scraped.MergeFrom(each)
            writer.traces(served)
            writer.metrics(scraped)
        writer.settle()
    return hours


def _traced(hour, told, since_s, until_s):
    by = {}
    for at_s, name, server in told:
        if since_s <= at_s < until_s:
            by.setdefault(name, []).append(server)
    return [traces(*spans, **_resource(hour, name)) for name, spans in by.items()]


def _events(hour):
    """What a pipeline would have reported of it."""
    kinds = {"deploy": "deploy", "restart": "sigterm", "scale-out": "scale-out"}
    if hour.life not in kinds:
        return []
    labels = (("replica", hour.replicas[-1][0]), ("service", hour.service))
    at_s = end_s() - 500
    return [Change(at_s=at_s, kind=kinds[hour.life], title="as planned", labels=labels)]


def blamed(reader, hour, *, paged):
    """The causes that are named, as asked by hand, or as if a page had gone out just now."""
    given, at_s = promises(hour), end_s()
    if not paged:
        return diagnose(reader, hour.service, at_s, given, events=_events(hour), budget_s=60).causes
    now = Window(since_s=at_s - LOOKED_S, until_s=at_s)
    told = promised_by(given, hour.service)
    looked = around(reader, hour.service, now, now.since_s, told[:1])
    found = diagnose_window(
        reader, hour.service, looked, told, at_s=at_s, events=_events(hour), budget_s=60
    )
    return found.causes


def _count(many):
    """`python -m tests.alerts.diagnosis.hours 500`: how many of so many healthy hours are blamed."""
    wrong = {False: Counter(), True: Counter()}
    for first in range(0, many, 50):
        with TemporaryDirectory() as folder:
            hours = written(Path(folder), range(first, min(first + 50, many)))
            reader = StoreReader(Path(folder), now=lambda: float(end_s()))
            for hour in hours:
                for paged, counts in wrong.items():
                    for cause in blamed(reader, hour, paged=paged)[:1]:
                        counts[cause.rule, str(cause.confidence), hour.life] += 1
            reader.close()
    print(many, "hours; asked:", dict(wrong[False]), "as if paged:", dict(wrong[True]))  # noqa: T201


if __name__ == "__main__":
    _count(int(sys.argv[1]))
