"""Sloth's files: what counts what we count is taken over, the rest is named with its line."""

import pytest

from alerts.definition import load
from alerts.sentence import sentence
from alerts.sloth import read
from alerts.writing import written
from domain.errors import ConfigError

FILE = """\
version: "prometheus/v1"
service: "chat"
labels: {owner: myteam, tier: 2}
slos:
  - name: "ttft"
    objective: 99.5
    description: "First token in time."
    sli:
      events:
        error_query: |
          (
            sum(rate(vllm:time_to_first_token_seconds_count{model_name="llama"}[{{.window}}]))
            -
            sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5",model_name="llama"}[{{.window}}]))
          )
        total_query: sum(rate(vllm:time_to_first_token_seconds_count{model_name="llama"}[{{.window}}]))
    alerting:
      page_alert: {labels: {severity: critical}}
  - name: "availability"
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(http_requests_total{code=~"(5..|429)"}[{{.window}}]))
        total_query: sum(rate(http_requests_total[{{.window}}]))
  - name: "all"
    objective: 100
    sli: {raw: {error_ratio_query: "x"}}
"""


def test_what_counts_what_we_count_is_an_objective_of_ours():
    (ttft,) = read(FILE, "sloth.yml").definitions

    assert ttft.id == "chat-ttft"
    assert sentence(ttft.objective) == "p99.5 ttft <= 2.5s over 30d where model=llama"
    assert ttft.description == "First token in time."
    assert ttft.labels == (("owner", "myteam"), ("tier", "2"))
    assert load(written([ttft])) == [ttft]


def test_what_does_not_is_named_with_its_line_and_the_way_out():
    losses = [str(each) for each in read(FILE, "sloth.yml").losses]

    assert losses[0].startswith("sloth.yml:18:7: note: 'alerting' is not taken over")
    assert losses[1].startswith("sloth.yml:23:22: left out: 'sum(rate(http_requests_total{code=~")
    assert losses[2].startswith("sloth.yml:27:10: left out: raw gives no events to count")
    assert len(losses) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: prometheus/v2", "has the version 'prometheus/v2'"),
        ("service: chat", "has the version 'none'"),
        ("", "holds no SLO"),
        ("- a", "is no mapping"),
        ("version: prometheus/v1\nslos: 3", "is no list"),
    ],
)
def test_what_is_no_file_of_sloth_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        read(text, "f")


@pytest.mark.parametrize(
    ("slo", "told"),
    [
        ("{objective: 99}", "'name' is missing"),
        (
            "{name: a, objective: 100, sli: {events: {error_query: a, total_query: b}}}",
            "recognised",
        ),
        ("{name: a, objective: 9, sli: {events: {error_query: a}}}", "'total_query' is missing"),
    ],
)
def test_a_wrong_slo_is_left_out_and_the_others_are_not(slo, told):
    translated = read(f"{FILE}  - {slo}\n", "f")

    assert len(translated.definitions) == 1
    assert told in translated.losses[-1].what
    assert translated.losses[-1].dropped
