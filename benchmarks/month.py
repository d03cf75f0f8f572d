"""A store of a month: 500 latency series of 20 services, their pages, 128 GPUs, probes, endpoints.

Tiles lie where they lie after a month: days and hours for 37 days (a month, and the week before it),
minutes for 26 hours and around every edge that a page looks at, ten seconds for the last hours.
What is open (the hour and the day that now fills) is marked dirty, as in a store that is written to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import Connection

from benchmarks import gpu_page
from collector import words
from collector.crowds import Crowds
from collector.legs import KINDS, OUTCOMES, SECONDS, TOKENS, LegTable
from collector.schema import TIERS_S
from collector.segments import write
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from domain.endpoint import EndpointKey, EndpointPoint
from domain.grid import CELLS, cells_of
from domain.leg import LegKind, Outcome
from domain.metric import METRICS

__all__ = ["BIG", "NOW_S", "REPLICAS", "SERIES", "SERVICES", "fill", "service"]

NOW_S = gpu_page.NOW_S
"""Data reach five minutes further, so that a benchmark's clock can move."""

SERVICES, REPLICAS = 20, 25
SERIES = SERVICES * REPLICAS
BIG = "big"
_AHEAD_S = 300
_HOUR_S, _DAY_S = 3600, 86_400
_PER_S = 0.1  # requests a second and series
_BLOBS = 64
_LEGS = 400_000
_PROBED = 20
_LOOKED_AT = 25
_CROWD = 12  # series of a crowd: half of a service's are in each of two regions
_ENDPOINTS = 20

_LATENCIES = {  # name: middle, spread, values a request
    "ttft": (0.3, 0.6, 1),
    "tpot": (0.03, 0.3, 1),
    "itl": (0.03, 0.4, 8),
    "itl_max": (0.1, 0.5, 1),
    "e2e": (4.0, 0.6, 1),
    "overhead": (0.005, 0.4, 1),
    "queue": (0.05, 1.0, 1),
    "prefill": (0.2, 0.5, 1),
    "decode": (3.5, 0.6, 1),
}
_HOPS = {
    "dns": (0.002, 0.3, 1),
    "connect": (0.02, 0.2, 1),
    "tls": (0.03, 0.2, 1),
    "first_byte": (0.2, 0.3, 1),
    "ttft": (0.3, 0.4, 1),
    "e2e": (2.0, 0.4, 1),
}
_NUMBERS = {
    "requests_started": 1.0,
    "requests_finished": 1.0,
    "generation_tokens": 200.0,
    "up": 1.0,
    "requests_running": 8.0,
    "requests_waiting": 1.0,
    "kv_cache_usage": 0.5,
    "kv_cache_capacity": 1000.0,
}
_PROBE_NUMBERS = {
    "probes": 1.0,
    "up": 1.0,
    "buffering": 0.0,
    "probe_month_tokens": 9000.0,
    "probe_token_allowance": 1e6,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some series, and what they tell."""

    series: Sequence[int]
    crowds: Sequence[int]
    latencies: dict[str, tuple[float, float, int]]
    numbers: dict[str, float]
    every_s: int  # a value each so many seconds
    looked_at: bool = False  # its minutes and hours are all there


def service(number: int) -> str:
    return f"s{number:02}"


def fill(folder: Path, *, services: int = SERVICES, replicas: int = REPLICAS) -> None:
    """All of it; `services=1, replicas=500` is one large service."""
    store = open_store(folder)
    with Writer(store, CollectorSettings(), now=lambda: float(NOW_S)) as writer:
        gpu_page.fill(writer)
        writer.endpoints(list(_endpoints()))
    with store.engine.begin() as connection:
        first = connection.exec_driver_sql("SELECT coalesce(max(id), 0) FROM series").scalar() or 0
        for part in _parts(connection, first, services, replicas):
            _tiles(connection, part)
        _segments(connection, [*range(first + 1, first + services * replicas + 1)])
        _mark_open(connection)
        connection.exec_driver_sql("ANALYZE")
    store.close()


def _parts(connection: Connection, first: int, services: int, replicas: int) -> Iterable[_Part]:
    """Spans and pages of the same replicas, and the probes of some services."""
    whole = services * replicas
    places = [
        {
            "service": service(n // replicas),
            "replica": f"r{n:03}",
            "model": f"m{n // replicas % 4}",
            "region": ("eu-west-1", "us-east-1")[n % 2],
            "engine": "vllm",
        }
        for n in range(whole)
    ]
    labels = [{**place, "source": source} for source in ("span", "page") for place in places]
    labels += [
        {"service": service(n % services), "region": f"region-{n}", "replica": f"t{n}", "source": "probe"}
        for n in range(_PROBED)
    ]  # fmt: skip
    connection.exec_driver_sql(
        "INSERT INTO series VALUES (?, ?, ?)",
        [
            (first + 1 + n, (10**9 + n).to_bytes(16, "big"), json.dumps(sorted(each.items())))
            for n, each in enumerate(labels)
        ],
    )
    spans, pages = (
        range(first + 1, first + whole + 1),
        range(first + whole + 1, first + 2 * whole + 1),
    )
    probes = range(first + 2 * whole + 1, first + 2 * whole + 1 + _PROBED)
    crowd_of = Crowds()
    crowd_of.learn({first + 1 + n: tuple(sorted(each.items())) for n, each in enumerate(labels)})
    for every, latencies, numbers in ((spans, _LATENCIES, {}), (pages, {}, _NUMBERS)):
        looked_at = every[: min(replicas, _LOOKED_AT)]
        for some, whole in ((looked_at, True), (every[len(looked_at) :], False)):
            crowds = sorted({crowd_of.of[number] for number in some})
            yield _Part(series=some, crowds=crowds, latencies=latencies, numbers=numbers, every_s=1, looked_at=whole)  # fmt: skip
    crowds = sorted({crowd_of.of[number] for number in probes})
    yield _Part(series=probes, crowds=crowds, latencies=_HOPS, numbers=_PROBE_NUMBERS, every_s=60, looked_at=True)  # fmt: skip


def _tiles(connection: Connection, part: _Part) -> None:
    connection.exec_driver_sql("CREATE TEMP TABLE who AS SELECT value AS id FROM json_each(?)", (json.dumps(list(part.series)),))  # fmt: skip
    connection.exec_driver_sql("CREATE TEMP TABLE crowds AS SELECT value AS id FROM json_each(?)", (json.dumps(list(part.crowds)),))  # fmt: skip
    for tier_s in TIERS_S:
        starts = _starts(max(tier_s, part.every_s), tier_s, looked_at=part.looked_at)
        connection.exec_driver_sql("CREATE TEMP TABLE starts AS SELECT value AS at_s FROM json_each(?)", (json.dumps(starts),))  # fmt: skip
        n = max(round(tier_s * _PER_S / part.every_s), 1)
        for name, shape in part.latencies.items():
            _histograms(connection, f"histogram_{tier_s}", "who", name, n, shape)
            if tier_s > TIERS_S[0] and part.crowds:
                _histograms(connection, f"crowd_{tier_s}", "crowds", name, n * _CROWD, shape)
        for name, value in part.numbers.items():
            _numbers(connection, tier_s, name, n, value)
        connection.exec_driver_sql("DROP TABLE starts")
    connection.exec_driver_sql("DROP TABLE who")
    connection.exec_driver_sql("DROP TABLE crowds")


def _histograms(  # noqa: PLR0917 - what a row is made of
    connection: Connection, table: str, who: str, name: str, n: int, shape: tuple[float, float, int]
) -> None:
    middle, spread, times = shape
    rng = np.random.default_rng(METRICS[name].number)
    connection.exec_driver_sql("CREATE TEMP TABLE drawn (k INTEGER PRIMARY KEY, sum_ns INTEGER, words BLOB)")  # fmt: skip
    connection.exec_driver_sql(
        "INSERT INTO drawn VALUES (?, ?, ?)",
        [(k, *_drawn(rng, middle, spread, n * times)) for k in range(_BLOBS)],
    )
    connection.exec_driver_sql(
        f"INSERT OR REPLACE INTO {table} SELECT ?, at_s, id, ?, 0, sum_ns, words, x'', x''"  # noqa: S608 - ours
        f" FROM starts CROSS JOIN {who} JOIN drawn ON k = (at_s / 10 + id) % {_BLOBS}"
        " ORDER BY at_s, id",
        (METRICS[name].number, n * times),
    )
    connection.exec_driver_sql("DROP TABLE drawn")


def _drawn(rng: np.random.Generator, middle: float, spread: float, n: int) -> tuple[int, bytes]:
    sample = rng.lognormal(np.log(middle), spread, min(n, 20_000))
    times = max(n // len(sample), 1)
    counts = np.bincount(cells_of(sample), minlength=CELLS) * times
    counts[int(cells_of(np.array([middle]))[0])] += n - int(counts.sum())
    return int(sample.sum() * times * 1e9), words.encode(counts)


def _numbers(connection: Connection, tier_s: int, name: str, n: int, value: float) -> None:
    connection.exec_driver_sql(
        f"INSERT OR REPLACE INTO number_{tier_s} SELECT ?, at_s, id, ?, ?, ?, ?, ?,"  # noqa: S608 - ours
        f" (at_s + {tier_s - 1}) * 1000000000 FROM starts CROSS JOIN who ORDER BY at_s, id",
        (METRICS[name].number, n, value * n, value, value, value),
    )


def _starts(step_s: int, tier_s: int, *, looked_at: bool) -> list[int]:
    """The tiles that a page may read: around the edges of its windows; of one service, all."""
    until_s = NOW_S + _AHEAD_S
    edges = [until_s - days * _DAY_S for days in (0, 1, 2, 7, 8, 14, 30, 37, 60)]
    hours = [(each // _HOUR_S * _HOUR_S, each // _HOUR_S * _HOUR_S + _HOUR_S) for each in edges]
    runs = {
        10: [
            (edge - back_s - 500, edge - back_s + 10) for edge in edges for back_s in (0, _HOUR_S)
        ],
        60: [*hours, *((since - 2 * _HOUR_S, since) for since, _ in (hours[0], hours[3]))],
        3600: [(edge // _DAY_S * _DAY_S, edge // _DAY_S * _DAY_S + _DAY_S) for edge in edges],
        86_400: [(until_s - 68 * _DAY_S, until_s)],
    }[tier_s]
    if looked_at:
        runs += {10: [], 60: [(until_s - 26 * _HOUR_S, until_s)]}.get(tier_s, [(until_s - 38 * _DAY_S, until_s)])  # fmt: skip
    return sorted({at // tier_s * tier_s for since, until in runs
                   for at in range(since // step_s * step_s, min(until, until_s) // step_s * step_s, step_s)})  # fmt: skip


def _segments(connection: Connection, series: Sequence[int]) -> None:
    """Server spans, the newest of them in the last minutes; one in ten has its client's beside it."""
    rng = np.random.default_rng(2)
    lasting_s, size = 2 * _HOUR_S, 8192
    for at in range(0, _LEGS, size):
        end_s = NOW_S + _AHEAD_S - lasting_s * (1 - (at + np.sort(rng.random(size) * size)) / _LEGS)
        table = _legs(rng, (end_s * 1e9).astype(np.int64), series)
        write(connection, table, stored_at_s=NOW_S)


def _legs(rng: np.random.Generator, end_at_ns: np.ndarray, series: Sequence[int]) -> LegTable:
    n = len(end_at_ns)
    prompt = rng.lognormal(7, 1, n).astype(np.int64)
    queue_s, prefill_s, decode_s = (
        rng.lognormal(-3, 1, n),
        prompt / 20_000,
        rng.lognormal(0.5, 0.4, n),
    )
    kind = np.full(n, KINDS.index(LegKind.SERVER), np.uint8)
    traces = rng.bytes(16 * n)
    client = np.arange(9, n, 10)
    kind[client] = KINDS.index(LegKind.CLIENT)
    parts = [traces[16 * i : 16 * i + 16] for i in range(n)]
    for row in client.tolist():
        parts[row] = parts[row - 1]
    told = {
        "ttft_s": queue_s + prefill_s,
        "e2e_s": queue_s + prefill_s + decode_s + 0.004,
        "queue_s": queue_s,
        "prefill_s": prefill_s,
        "decode_s": decode_s,
    }
    outcome = np.full(n, OUTCOMES.index(Outcome.OK), np.uint8)
    outcome[::50] = OUTCOMES.index(Outcome.FAILED)
    return LegTable(
        trace_ids=b"".join(parts),
        span_ids=rng.bytes(8 * n),
        parent_ids=bytes(8 * n),
        series_id=np.array(series, np.int64)[rng.integers(0, len(series), n)],
        kind=kind,
        outcome=outcome,
        streamed=np.full(n, 2, np.uint8),
        room=np.zeros(n, np.int64),
        start_at_ns=end_at_ns - (told["e2e_s"] * 1e9).astype(np.int64),
        end_at_ns=end_at_ns,
        seconds={name: told.get(name, np.full(n, np.nan)) for name in SECONDS},
        tokens={
            name: prompt if name == "prompt_tokens" else np.full(n, 100, np.int64)
            for name in TOKENS
        },
        finish=["stop"] * n,
    )


def _mark_open(connection: Connection) -> None:
    """The hour and the day that fill are out of date while they do."""
    for tier_s in (_HOUR_S, _DAY_S):
        connection.exec_driver_sql(
            "INSERT OR IGNORE INTO dirty VALUES (?, ?, ?)",
            [(tier_s, each.number, NOW_S // tier_s * tier_s) for each in METRICS.values()],
        )


def _endpoints() -> Iterable[EndpointPoint]:
    """Minutes of a few hours, as CloudWatch keeps them for a page to look at."""
    for number in range(_ENDPOINTS):
        for name, told in (
            ("Invocations", {"Sum": 600.0, "SampleCount": 600.0}),
            ("ModelLatency", {"Average": 0.4, "SampleCount": 600.0, "p50": 0.3, "p99": 1.4}),
            ("Invocation5XXErrors", {"Sum": 0.0, "SampleCount": 600.0}),
        ):
            key = EndpointKey(
                account="123456789012",
                region="eu-west-1",
                namespace="AWS/SageMaker",
                name=name,
                dimensions=(("EndpointName", f"e{number}"), ("VariantName", "a")),
            )
            for at_s in range(NOW_S // 60 * 60 - 25 * _HOUR_S, NOW_S // 60 * 60, 60):
                yield EndpointPoint(
                    key=key,
                    service=service(number),
                    start_s=at_s,
                    fetched_at_s=float(at_s + 90),
                    settled_at_s=float(at_s + 300),
                    statistics=told,
                )
