"""Objectives as Prometheus rules: what they ask, what they refuse, and what they say is lost."""

import json
import shutil
import subprocess
from fractions import Fraction

import pytest

from alerts.prometheus_rules import Histogram, Source, export, sidecar_source
from domain.errors import ConfigError
from exporters.engine.own_page import LE_S
from tests.alerts.fleet import chat

SIDECAR = sidecar_source(LE_S)


def rules_of(exported):
    return [rule for group in exported.document["groups"] for rule in group["rules"]]


def expressions(exported, **labels):
    return [
        rule["expr"]
        for rule in rules_of(exported)
        if all(rule.get("labels", {}).get(name) == value for name, value in labels.items())
    ]


def accepted(exported, folder):
    path = folder / "rules.yml"
    path.write_text(json.dumps(exported.document))
    return subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus's promtool")
@pytest.mark.parametrize("native", [False, True])
def test_promtool_takes_the_rules_whatever_the_labels_contain(tmp_path, native):
    hostile = (
        "- {name: odd, metric: ttft, threshold: 1.5s, target: 99%, "
        "where: {tenant: 'a\"b\\{{ $x }}', model: 'Ünïcode'}}"
    )
    objectives = chat(f"- p99 ttft <= 1.5s\n- p99.9 e2e <= 20s over 7d\n{hostile}")

    exported = export(objectives, sidecar_source(LE_S, native=native))

    said = accepted(exported, tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_threshold_on_an_edge_of_an_exact_histogram_needs_one_bound():
    source = Source(histograms={"ttft": Histogram(name="t", edges_s={Fraction(3, 2): "1.5"})})

    exported = export(chat("- p99 ttft <= 1.5s"), source)

    assert not expressions(exported, bound="possible")
    assert all('le="1.5"' in each for each in expressions(exported, bound="sure"))


def test_between_two_edges_a_page_asks_the_outer_one_and_a_ticket_the_inner_one():
    edges = {Fraction(1): "1.0", Fraction(5, 2): "2.5"}
    source = Source(histograms={"ttft": Histogram(name="t", edges_s=edges)})

    exported = export(chat("- {phrase: p99 ttft <= 1.5s, name: chat}"), source)

    assert all('le="2.5"' in each for each in expressions(exported, bound="sure"))
    assert all('le="1.0"' in each for each in expressions(exported, bound="possible"))
    assert all('bound="sure"' in each for each in expressions(exported, severity="page")[:1])
    (ticket,) = expressions(exported, severity="ticket")
    assert 'bound="possible"' in ticket
    assert 'bound="sure"' not in ticket


def test_an_edge_is_written_as_the_page_spells_it():
    source = Source(histograms={"ttft": Histogram(name="t", edges_s={Fraction(2): "2"})})

    exported = export(chat("- p99 ttft <= 2s"), source)

    assert all('le="2"' in each for each in expressions(exported, bound="sure"))


@pytest.mark.parametrize("threshold", ["0.5s", "3s"])
def test_a_threshold_outside_all_edges_is_refused_with_the_edges(threshold):
    edges = {Fraction(1): "1.0", Fraction(5, 2): "2.5"}
    source = Source(histograms={"ttft": Histogram(name="t", edges_s=edges)})

    with pytest.raises(
        ConfigError, match=r"outside the edges of t\. Use a threshold within them: 1\.0, 2\.5"
    ):
        export(chat(f"- p99 ttft <= {threshold}"), source)


def test_failed_requests_are_in_the_denominator_and_bad():
    (total, *_) = expressions(export(chat("- p99 ttft <= 1.5s"), SIDECAR))

    assert "stagewatch_requests_failed_total" in total


def test_of_gaps_between_tokens_a_failed_request_had_none():
    exported = export(chat("- p99 itl <= 100ms"), SIDECAR)

    assert not any("requests_failed" in each for each in expressions(exported))


def test_what_prometheus_cannot_say_is_said():
    objectives = chat(
        "- {phrase: goodput ttft <= 1s and tpot <= 50ms 99%, name: together}\n- p99 ttft <= 1.5s"
    )

    exported = export(objectives, SIDECAR)

    assert any(loss.startswith("together: not exported") for loss in exported.losses)
    assert any(
        "Prometheus resolves an alert whose data are gone" in each for each in exported.losses
    )
    assert {rule["labels"]["objective"] for rule in rules_of(exported)} == {"ttft"}


def test_a_latency_that_the_source_does_not_have_is_an_error():
    with pytest.raises(ConfigError, match="no histogram is named for 'ttft'"):
        export(chat("- p99 ttft <= 1.5s"), Source(histograms={}))


def test_timers_and_runbook_go_along():
    exported = export(
        chat(
            "- {phrase: p99 ttft <= 1.5s, for: 5min, keep_firing: 30min, runbook: 'https://example.org/r'}"
        ),
        SIDECAR,
    )

    page = next(rule for rule in rules_of(exported) if rule.get("alert") == "SloTtftPage")
    assert (page["for"], page["keep_firing_for"]) == ("300s", "1800s")
    assert page["annotations"]["runbook_url"] == "https://example.org/r"


def test_silence_is_an_alert_of_its_own_unless_it_is_off():
    with_it = export(chat("- p99 ttft <= 1.5s"), SIDECAR)
    without = export(chat("- {phrase: p99 ttft <= 1.5s, no_data: off}"), SIDECAR)

    assert [r["for"] for r in rules_of(with_it) if r.get("alert") == "SloTtftNoData"] == ["480s"]
    assert not [r for r in rules_of(without) if r.get("alert") == "SloTtftNoData"]
