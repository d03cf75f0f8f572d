"""The weekly review of a real store: days of spans in, a verdict out, by command and by schedule."""

import json
import threading

import numpy as np
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.receivers.body import read
from alerts.tables import OutboxRow, open_state
from collector.query import Window
from collector.reader import StoreReader
from review.period import SECONDS
from review.shelf import Shelf
from review.timetable import Cron, Standing, Timetable
from review.verdict import VerdictKind
from stagewatch.__main__ import main
from stagewatch.config import Config
from stagewatch.review_schedule import ReviewSchedule
from stagewatch.reviewing import growth_of, review_of_store, transfer_failures
from tests.collector.storing import gauge_of, metrics, span, sum_of, traces, writing
from tests.review import weeks
from tests.review.test_report import recorded

DAY_S = 86_400
DAYS = 5
SINCE_S = 1_790_035_200  # midnight, UTC
WINDOW = Window(since_s=SINCE_S, until_s=SINCE_S + DAYS * DAY_S)


def spans_of(period, day):
    """Of each engine: a prompt is filled by one, answered by the other; some failed or were refused."""
    filled, answered = [], []
    for row in np.flatnonzero(period.days == day):
        at_s, number = SINCE_S + float(period.arrival_s[row]), int(row) + 1
        start_s, filled_s, joined_s, first_s, last_s = (
            float(getattr(period, name)[row]) for name in SECONDS
        )
        if number % 100 == 0:
            outcome = "failed" if number % 200 else "rejected"
            found = whole(2 * number, number, at_s, 1.0)
            found.attributes.add(key="stagewatch.outcome").value.string_value = outcome
            filled.append(found)
            continue
        prompt, output = int(period.prompt_tokens[row]), int(period.output_tokens[row])
        told = {"queue": start_s, "model_prefill": filled_s - start_s, "model_decode": 0.0}
        filled.append(
            whole(2 * number, number, at_s, filled_s, filled_s, tokens=(prompt, 1), stages=told)
        )
        told = {"queue": 0.0, "model_prefill": first_s - joined_s, "model_decode": last_s - first_s}
        lasts = last_s - joined_s, first_s - joined_s
        answered.append(
            whole(
                2 * number + 1,
                number,
                at_s + joined_s,
                *lasts,
                tokens=(prompt, output),
                stages=told,
            )
        )
    return filled, answered


def whole(number, trace, at_s, *lasts, tokens=(), stages=()):
    """What one engine says of its part."""
    e2e_s, *first = lasts
    found = span(number, end_s=at_s + e2e_s, lasts_s=e2e_s, gen_ai__latency__e2e=e2e_s)
    found.trace_id = trace.to_bytes(16, "big")
    for name, value in zip(("prompt", "completion"), tokens, strict=False):
        found.attributes.add(key=f"gen_ai.usage.{name}_tokens").value.int_value = value
    for name, value in dict(stages).items():
        found.attributes.add(key=f"gen_ai.latency.time_in_{name}").value.double_value = value
    for first_s in first:
        found.attributes.add(key="gen_ai.latency.time_to_first_token").value.double_value = first_s
    return found


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    period = weeks.week(1, 1, per_s=12, days=DAYS, per_day=700)
    now_s = [0.0]
    labels = {"stagewatch.engine": "vllm", "service.instance.id": "d0", "stagewatch.role": "decode"}
    filler = labels | {"service.instance.id": "p0", "stagewatch.role": "prefill"}
    with writing(folder / "data", now=lambda: now_s[0], requests_retention_s=30 * DAY_S) as writer:
        for day in range(DAYS):
            now_s[0] = SINCE_S + day * DAY_S + 36_000 + 300.0
            for own, spans in zip((filler, labels), spans_of(period, day), strict=True):
                writer.traces(traces(*spans, **own))
                failed = int(day == 0 and own is labels)
                writer.metrics(metrics(*heard(now_s[0], failed), **own))
        for place, replica in enumerate(("d0", "p0")):
            writer.metrics(metrics(*held(replica, ("H100", "L40S")[place], now_s[0])))
        writer.settle()
    return folder


def heard(now_s, count):
    """That it is there, and how many hand-overs failed."""
    failed = Metric(name="stagewatch_kv_transfers_failed_total")
    return [
        gauge_of(Metric(name="stagewatch_up"), 1, at_s=now_s - 5),
        sum_of(failed, count, start_s=now_s - 15, end_s=now_s - 5),
    ]


def held(replica, gpu, now_s):
    """Which GPU serves a replica."""
    own = {"stagewatch.gpu_uuid": f"GPU-{replica}"}
    whom = {"stagewatch.service": "chat", "stagewatch.replica": replica}
    info, serves = (Metric(name=f"stagewatch_gpu_{name}") for name in ("info", "serves"))
    return [
        gauge_of(info, 1, at_s=now_s - 5, **own, **{"stagewatch.gpu_name": gpu}),
        gauge_of(serves, 1, at_s=now_s - 5, **own, **whom),
    ]


def config(folder, **review):
    told = {
        "promise": {"ttft_s": 0.5, "tpot_s": 0.02, "target": 0.95}, "requests_min": 3000,
        "peak_hour_min": 200, "decode": {"kv_tokens": 400_000}, **review,
    }  # fmt: skip
    receiver = {"name": "hook", "type": "webhook", "url": "http://127.0.0.1:9/x"}
    return Config(
        store={"data_dir": folder / "data"}, review=told, prices=[{"per_hour": 10}],
        retention={"requests_s": 30 * DAY_S}, receivers=[receiver],
        alerts={"public_url": "https://watch.example"},
    )  # fmt: skip


def test_days_of_a_store_become_a_review_with_its_failed_and_without_its_refused(stored):
    kept = review_of_store(config(stored), WINDOW, service="chat", now_s=float(WINDOW.until_s))

    traffic = kept.review.traffic
    assert traffic.failed == 18
    assert dict(traffic.left_out)["the request itself was wrong"] == 17
    assert traffic.requests == DAYS * 700 - 17
    assert all(gate.passed for gate in kept.review.gates), kept.review.gates
    assert {str(kind) for kind, _ in kept.review.split.counts} == {
        "decode H100 vllm",
        "prefill L40S vllm",
    }
    assert kept.review.verdict.kind is VerdictKind.DO_NOTHING, kept.review.verdict
    assert Shelf(stored / "data" / "reviews").one(kept.id) == kept


def test_a_period_that_is_no_longer_kept_is_said_and_refused(stored):
    short = config(stored).model_copy(
        update={"retention": config(stored).retention.model_copy(update={"requests_s": 3 * DAY_S})}
    )

    kept = review_of_store(short, WINDOW, service="chat", now_s=float(WINDOW.until_s))

    assert kept.review.verdict.kind is VerdictKind.NO_RECOMMENDATION
    assert "3 of 5 days" in kept.review.verdict.says
    assert "of the first 2.0 days single requests are no longer kept" in kept.review.verdict.says
    assert "retention.requests_s" in kept.review.verdict.says


def test_growth_is_the_median_of_weekdays(tmp_path):
    """Four days of two weeks: a third more on three of them, and one that went mad."""
    now_s = [0.0]
    with writing(tmp_path, now=lambda: now_s[0]) as writer:
        for day in range(11):
            now_s[0] = SINCE_S + day * DAY_S + 3_600.0
            count = {7: 40, 8: 40, 9: 400, 10: 40}.get(day, 30)
            found = [whole(100 * (day * 1000 + n + 1), day * 1000 + n + 1, now_s[0] - 60, 2.0, 0.5)
                     for n in range(count)]  # fmt: skip
            writer.traces(traces(*found))
        writer.settle()
    reader = StoreReader(tmp_path)
    try:
        window = Window(since_s=SINCE_S + 7 * DAY_S, until_s=SINCE_S + 11 * DAY_S)
        assert growth_of(reader, "chat", window) == pytest.approx(4 / 3)
    finally:
        reader.close()


def test_growth_is_unknown_without_a_week_before_and_failed_transfers_where_nobody_counts(stored):
    reader = StoreReader(stored / "data")
    try:
        assert growth_of(reader, "chat", WINDOW) is None
        assert transfer_failures(reader, "chat", WINDOW) == 1
        assert transfer_failures(reader, "code", WINDOW) is None
    finally:
        reader.close()


@pytest.fixture
def state(stored):
    found = open_state(config(stored).alerting.state_location(stored / "data"))
    yield found
    found.dispose()


def scheduled(stored, state, *, leads=True, **review):
    cron = Cron(line="0 0 * * *")
    return ReviewSchedule(
        config(stored, cron=cron.line, days=DAYS, **review), cron, state, leads=lambda: leads
    )


def waiting(state):
    with Session(state) as session:
        return [json.loads(body) for body in session.scalars(select(OutboxRow.body))]


def test_a_missed_review_is_caught_up_once_in_a_process_of_its_own_and_sent(stored, state):
    table = Timetable(stored / "data" / "reviews")
    table.write(Standing(ran_for_s=WINDOW.until_s - 3.0 * DAY_S))
    schedule = scheduled(stored, state, services=("chat", "nobody"))

    schedule.tick(threading.Event(), WINDOW.until_s + 600.0)
    schedule.tick(threading.Event(), WINDOW.until_s + 700.0)

    found = table.read()
    assert (found.ran_for_s, found.running) == (WINDOW.until_s, "")
    assert found.next_s == WINDOW.until_s + DAY_S
    assert "'nobody' is not in the period" in schedule.problem()
    (newest, *_) = Shelf(stored / "data" / "reviews").all(service="chat")
    assert newest.review.until_s == WINDOW.until_s
    chat, nobody = map(read, map(json.dumps, waiting(state)))
    assert chat.text == newest.review.verdict.says
    assert chat.links == {"alert": "https://watch.example/balance"}
    assert nobody.text.startswith("There is no review of nobody")


def test_who_does_not_lead_runs_nothing(stored, state):
    before = len(waiting(state))

    scheduled(stored, state, leads=False).tick(threading.Event(), WINDOW.until_s + 9.0 * DAY_S)

    assert len(waiting(state)) == before


def test_the_list_says_what_failed_and_when_the_next_is_due(tmp_path, capsys):
    file = tmp_path / "sw.yaml"
    file.write_text(f"store: {{data_dir: {tmp_path}/data}}\nreview: {{cron: '0 6 * * MON'}}\n")
    folder = tmp_path / "data" / "reviews"
    Shelf(folder).keep(recorded("keep"))
    torn = folder / "20260101-0123456789.json"
    torn.write_text("{")

    assert main(["review", "show", f"--config={file}"]) == 0

    said = capsys.readouterr()
    assert "the next scheduled review is due" in said.err
    assert f"{torn} is left out" in said.err
    assert "chat" in said.out
