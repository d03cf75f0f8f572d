"""Public failures of other collectors (cases CW1 to CW13), against the fake through boto3."""

import json
from collections import Counter

import pytest
from pydantic import ValidationError

from domain.endpoint import PointState
from domain.endpoint_catalogue import of_kind
from exporters.cloudwatch.answer import COMPLETE, merge
from exporters.cloudwatch.asked import asked_of
from exporters.cloudwatch.discovery import Discovered, wanted
from exporters.cloudwatch.query import batches, queries
from exporters.cloudwatch.source import Listed
from tests.exporters.cloudwatch.polling import (
    BEDROCK,
    MODEL,
    SAGEMAKER,
    T0,
    VARIANT,
    kept,
    nobody,
    poller_of,
    polling,
    settings_of,
    totals,
)
from tests.fake_cloudwatch.account import ACCOUNT
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.paths import RECORDED

SAMPLES = RECORDED / "cloudwatch"


def sample(name):
    return json.loads((SAMPLES / name).read_text())


def series_of(*endpoints, present=()):
    settings = settings_of(*endpoints)
    (scope,) = settings.scopes
    return [
        asked
        for endpoint in scope.endpoints
        for asked in asked_of(scope, endpoint, settings.thresholds_s, present=present)
    ]


def test_cw1_what_is_counted_is_what_is_billed():
    with polling(SAGEMAKER) as (poller, account, clock):
        poller.asked = [each for each in poller.asked if each.metric.tier == "objective"]
        poller._discovered_at_s = clock.now_s
        for _ in range(60):
            account.put("AWS/SageMaker", "Invocations", VARIANT, clock.now_s - 60, [1.0])
            poller._discovered_at_s = clock.now_s  # the lists are not what is billed here
            poller.poll(clock.now_s)
            clock.sleep(60)

    assert len(poller.asked) == 3
    assert account.billed == poller.counts["billed_metrics"] == 180


def test_cw1_no_metric_is_split_over_two_calls():
    bedrock = [{**BEDROCK, "dimensions": {"ModelId": f"m{n}"}} for n in range(101)]
    latencies = [each for each in series_of(*bedrock) if each.metric.ours == "e2e"]

    cut = batches(latencies)

    assert [len(each.statistics) for each in latencies] == [5] * 101
    assert [len(queries(batch)) for batch in cut] == [500, 5]
    assert sum(each.billed_units for batch in cut for each in batch) == 101


def test_cw1_a_budget_stops_the_cold_metrics_first_and_says_so_once(caplog):
    day = T0 // 86_400 * 86_400
    scope = {"budget_usd_per_day": 0.05}
    with polling(SAGEMAKER, at_s=day, scope=scope) as (poller, account, clock):
        notes = []
        for _ in range(31):
            account.put("AWS/SageMaker", "Invocations", VARIANT, clock.now_s - 60, [1.0])
            notes += poller.poll(clock.now_s).notes
            clock.sleep(60)
    asked = Counter(
        query["MetricStat"]["Metric"]["MetricName"]
        for body in account.answered("GetMetricData")
        for query in body["MetricDataQueries"]
        if query["MetricStat"]["Stat"] in ("Sum", "SampleCount")
    )

    assert notes == ["the budget of 0.05 $ a day stops cold"]
    assert asked["Invocations"] == 31
    assert asked["InvocationModelErrors"] == 7
    assert not asked["DiskUtilization"]
    assert caplog.text.count("stops cold") == 1


def test_cw2_every_point_of_the_window_is_kept():
    with polling(SAGEMAKER, at_s=T0 + 300) as (poller, account, clock):
        for minute, count in enumerate((5, 7, 11, 13, 17)):
            account.put("AWS/SageMaker", "Invocations", VARIANT, T0 + 60 * minute, [1.0] * count)

        points = [p for p in poller.poll(clock.now_s).points if p.key.name == "Invocations"]

    assert [p.statistics["Sum"] for p in points if p.statistics] == [5, 7, 11, 13, 17]


def test_cw3_pages_are_merged_by_id():
    pages = sample("gmd_partial_pages.json")

    results, _ = merge([pages["page1"], pages["page2"], pages["page3"]])

    assert {id_: len(result.values) for id_, result in results.items()} == {
        "a0": 10,
        "a1": 10,
        "a2": 10,
    }
    assert {result.status for result in results.values()} == {COMPLETE}


def test_cw3_what_came_before_a_failed_page_is_kept_and_the_rest_is_read_next_time(monkeypatch):
    from tests.fake_cloudwatch import metric_data

    monkeypatch.setattr(metric_data, "_MOST_POINTS", 12)
    with polling(SAGEMAKER, at_s=T0 + 600, reread_s=600) as (poller, account, clock):
        poller.asked = [
            e for e in poller.asked if e.metric.ours in ("invocations", "server_errors")
        ]
        poller._discovered_at_s = clock.now_s
        for minute in range(10):
            for name in ("Invocations", "Invocation5XXErrors"):
                account.put("AWS/SageMaker", name, VARIANT, T0 + 60 * minute, [1.0])
        account.fail_page = 12

        first = poller.poll(clock.now_s)
        account.fail_page = None
        rows = kept(first.points)
        held = totals(rows, "Invocations")[1], totals(rows, "Invocation5XXErrors")[1]
        clock.now_s = T0 + 660
        poller._discovered_at_s = clock.now_s
        kept(poller.poll(clock.now_s).points, rows)

    assert held == (10, 2)
    assert "Throttling" in first.failures[0]
    unread = [p for p in first.points if p.key.name == "Invocation5XXErrors"]
    assert all(p.state is PointState.VALUE and p.settled_at_s is None for p in unread)
    assert totals(rows, "Invocation5XXErrors") == (0, 10)


def test_cw4_a_late_minute_is_filled_and_a_young_point_is_provisional():
    with polling(SAGEMAKER, at_s=T0 + 70) as (poller, account, clock):
        put = account.put
        put("AWS/SageMaker", "Invocations", VARIANT, T0, [1.0] * 11)
        put("AWS/SageMaker", "Invocations", VARIANT, T0, [1.0] * 51, visible_at_s=T0 + 180)
        late = T0 - 240
        put("AWS/SageMaker", "Invocations", VARIANT, late, [1.0] * 3, visible_at_s=late + 900)
        told = {}
        rows = {}
        for at_s in (T0 + 70, T0 + 180, T0 + 240, T0 + 540, late + 900):
            clock.now_s = max(clock.now_s, at_s)
            kept(poller.poll(clock.now_s).points, rows)
            told[at_s] = {
                start: (point.statistics.get("Sum"), point.settled_at_s is not None)
                for (key, start), point in rows.items()
                if key.name == "Invocations"
            }

    assert told[T0 + 70][T0] == (11, False)
    assert told[T0 + 180][T0] == (62, False)
    assert told[T0 + 240][T0] == (62, True)
    assert told[T0 + 540][late] == (None, True)
    assert told[late + 900][late] == (3, True)
    assert sorted(round(age) for age in poller.ledger.late_update_s) == [180, 900]


def test_cw4_the_recorded_gap_is_no_zero_and_the_tail_grows():
    tail = sample("gmd_gap_and_unsettled_tail.json")

    first, _ = merge([tail["first_read"]])
    second, _ = merge([tail["second_read_plus_180s"]])

    gap = 1_780_000_020 - 240
    assert gap not in first["m0"].values
    grown = {at: v for at, v in second["m0"].values.items() if first["m0"].values[at] != v}
    assert grown == {1_779_999_900: 62.0, 1_779_999_960: 59.0}


def test_cw5_the_newest_settled_instant_is_known():
    with polling(SAGEMAKER, at_s=T0) as (poller, account, clock):
        account.put("AWS/SageMaker", "Invocations", VARIANT, T0, [1.0])
        clock.now_s = T0 + 240
        poller.poll(clock.now_s)
        keys = [each.key for each in poller.asked if each.metric.name == "Invocations"]

    assert [poller.ledger.newest_settled_s(key) for key in keys] == [T0 + 60]


def test_cw7_the_same_traffic_under_more_dimensions_is_read_once():
    told = sample("list_metrics_sagemaker.json")
    found = Discovered()
    found.listed(
        [
            Listed(
                account=owner,
                namespace=each["Namespace"],
                name=each["MetricName"],
                dimensions=tuple(sorted((d["Name"], d["Value"]) for d in each["Dimensions"])),
            )
            for each, owner in zip(told["Metrics"], told["OwningAccounts"], strict=True)
        ],
        ACCOUNT,
    )
    settings = settings_of(scope={"discover": ["sagemaker"]})

    asked = wanted(settings.scopes[0], settings.thresholds_s, found)

    latency = [each for each in asked if each.metric.name == "ModelLatency"]
    assert [dict(each.key.dimensions) for each in latency] == [VARIANT]
    assert found.levels["endpoint"] == 2
    assert found.levels.total() == 5


def test_cw7_dimensions_that_become_one_label_are_refused_when_the_file_is_read():
    both = {"kind": "bedrock", "dimensions": {"Broker ID": "1", "Broker_ID": "2"}}

    with pytest.raises(ValidationError, match="'Broker ID' and 'Broker_ID' become the same"):
        settings_of(both)


def test_cw10_no_query_names_a_unit_and_values_come_in_seconds():
    with polling(SAGEMAKER, BEDROCK, at_s=T0 + 60) as (poller, account, clock):
        account.put("AWS/SageMaker", "ModelLatency", VARIANT, T0, [2.9e6])
        account.put("AWS/Bedrock", "TimeToFirstToken", MODEL, T0, [3900.0])

        rows = kept(poller.poll(clock.now_s).points)

    told = {key.name: p.statistics for (key, start), p in rows.items() if start == T0}
    assert told["ModelLatency"]["p99"] == pytest.approx(2.9)
    assert told["ModelLatency"]["PR(:10)"] == 100
    assert told["TimeToFirstToken"]["Sum"] == pytest.approx(3.9)
    assert told["TimeToFirstToken"]["PR(:2)"] == 0
    for body in account.answered("GetMetricData"):
        assert not [q for q in body["MetricDataQueries"] if "Unit" in q["MetricStat"]]


def test_cw10_the_five_recorded_statistics_become_good_counts():
    answer = sample("gmd_ok_five_stats.json")
    asked = next(each for each in series_of(SAGEMAKER) if each.metric.name == "ModelLatency")
    renamed = {f"m{at}": f"m0_{at}" for at in range(5)}
    for result in answer["MetricDataResults"]:
        result["Id"] = renamed[result["Id"]]
    from domain.endpoint import Good, good_count
    from exporters.cloudwatch.answer import of_series

    told = of_series(merge([answer])[0], 0, asked).values

    counts = [good_count(each["PR(:10)"], each["SampleCount"]) for each in told.values()]
    assert counts == [Good(117, 117, 120), Good(114, 114, 118)]
    assert [each["Sum"] for each in told.values()] == [pytest.approx(96), pytest.approx(91)]


def test_cw11_thirty_percent_throttling_of_two_jobs_loses_no_minute():
    with polling(SAGEMAKER, account={"throttle_share": 0.3}) as (first, account, clock):
        settings = settings_of(BEDROCK, url=first.scope.endpoint_url)
        second = poller_of(settings, clock, caller=first.caller)
        rows = {}
        for minute in range(35):
            at_s = T0 + 60 * minute
            clock.now_s = max(clock.now_s, at_s)
            if minute < 30:
                account.put("AWS/SageMaker", "Invocations", VARIANT, at_s, [1.0] * (minute + 1))
                account.put("AWS/Bedrock", "Invocations", MODEL, at_s, [1.0] * 2)
            for poller in (first, second):
                kept(poller.poll(clock.now_s).points, rows)
        second._source.close()

    by_kind = {
        namespace: sorted(
            (start, point.statistics["Sum"])
            for (key, start), point in rows.items()
            if (key.namespace, key.name) == (namespace, "Invocations") and point.statistics
        )
        for namespace in ("AWS/SageMaker", "AWS/Bedrock")
    }
    assert by_kind["AWS/SageMaker"] == [(T0 + 60 * m, m + 1) for m in range(30)]
    assert by_kind["AWS/Bedrock"] == [(T0 + 60 * m, 2) for m in range(30)]
    assert first.caller.counts["GetMetricData", "throttled"] > 5


def test_cw13_our_client_speaks_the_protocol_that_the_fake_speaks():
    with fake_cloudwatch(now=lambda: T0) as fake:
        cloudwatch = nobody().client("cloudwatch", endpoint_url=fake.url)
        cloudwatch.list_metrics()
        cloudwatch.close()

    assert cloudwatch.meta.service_model.resolved_protocol == "json"
    ((target, content_type, _),) = fake.account.requests
    assert target.startswith("GraniteServiceVersion20100801.")
    assert content_type == "application/x-amz-json-1.0"


def test_a_wall_of_29_seconds_shows_in_the_maximum_of_the_gateway():
    wall = sample("apigw_29s_wall.json")
    minute = wall["minute"]
    latency = wall["values"]["IntegrationLatency"]
    api = {"kind": "rest_api", "dimensions": wall["Dimensions"], "service": "llm"}
    samples = [float(latency["p50"])] * 37 + [29_008.0, 29_009.0, float(latency["Maximum"])]
    with polling(api, at_s=minute + 60) as (poller, account, clock):
        put = account.put
        put(wall["Namespace"], "IntegrationLatency", wall["Dimensions"], minute, samples)
        put(wall["Namespace"], "5XXError", wall["Dimensions"], minute, [1.0] * 3 + [0.0] * 37)
        put(wall["Namespace"], "Count", wall["Dimensions"], minute, [1.0] * 40)

        points = poller.poll(clock.now_s).points

    told = {p.key.name: p.statistics for p in points if p.start_s == minute}
    assert told["IntegrationLatency"]["Maximum"] == pytest.approx(29.011)
    assert told["IntegrationLatency"]["p50"] == pytest.approx(6.2)
    assert told["5XXError"] == {"Sum": 3}
    assert told["Count"] == {"SampleCount": 40}


def test_an_embedded_metric_line_is_of_a_namespace_that_we_do_not_ask_for():
    line = sample("emf_log_line.json")
    (published,) = line["_aws"]["CloudWatchMetrics"]

    from domain.endpoint_catalogue import metric_of

    known = metric_of(published["Namespace"], published["Metrics"][0]["Name"], ["Endpoint"])
    assert known is None
    assert all(row.namespace != published["Namespace"] for row in of_kind("sagemaker"))
