"""What the pages for Grafana, Prometheus, Alertmanager and OpenTelemetry show to copy is right."""

import re

import pytest
import yaml

from stagewatch.config import load
from tests.paths import ROOT

DOCS = ROOT / "docs"
PAGES = ("grafana.md", "your-prometheus-and-alertmanager.md", "behind-an-otel-collector.md")
KINDS = {
    "receivers": {"otlp"},
    "processors": {"batch", "tail_sampling", "filter", "resource"},
    "exporters": {"otlphttp"},
    "extensions": {"file_storage"},
}
"""Components of the OpenTelemetry Collector's contrib distribution that the pages use."""


def blocks(page):
    """Every block of YAML, without what it is indented by."""
    text = (DOCS / page).read_text()
    for indent, body in re.findall(r"^( *)```yaml\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
        yield "\n".join(line.removeprefix(indent) for line in body.splitlines())


OURS = [
    pytest.param(text, id=f"{page} {place}")
    for page in PAGES
    for place, text in enumerate(blocks(page))
    if text.startswith(("# stagewatch.yaml", "receivers:\n  - name"))
]
COLLECTORS = list(blocks("behind-an-otel-collector.md"))


@pytest.mark.parametrize("text", OURS)
def test_what_goes_into_our_file_is_taken_as_it_stands(tmp_path, text):
    (tmp_path / "stagewatch.yaml").write_text(text)

    load(tmp_path / "stagewatch.yaml")


def test_every_page_shows_something_for_our_file_or_a_collectors():
    assert len(OURS) == 4
    assert len(COLLECTORS) == 3


@pytest.mark.parametrize("text", COLLECTORS)
def test_a_collectors_file_uses_what_it_defines_and_defines_what_it_uses(text):
    config = yaml.safe_load(text)
    pipelines = config["service"]["pipelines"]
    used = {
        kind: {name for each in pipelines.values() for name in each.get(kind, ())}
        for kind in ("receivers", "processors", "exporters")
    } | {"extensions": set(config["service"].get("extensions", ()))}

    for kind, names in used.items():
        assert names == set(config.get(kind, {}))
        assert {name.partition("/")[0] for name in names} <= KINDS[kind]
    assert all(name.partition("/")[0] in ("traces", "metrics") for name in pipelines)
    assert all(each["exporters"] for each in pipelines.values())


@pytest.mark.parametrize("text", COLLECTORS)
def test_no_sampler_stands_before_stagewatch(text):
    for pipeline in yaml.safe_load(text)["service"]["pipelines"].values():
        if "otlphttp/stagewatch" in pipeline["exporters"]:
            assert "tail_sampling" not in pipeline.get("processors", ())


def test_a_queue_on_disk_names_its_extension():
    config = yaml.safe_load(COLLECTORS[0])

    storage = config["exporters"]["otlphttp/stagewatch"]["sending_queue"]["storage"]
    assert storage in config["extensions"]


def test_the_metrics_that_the_pages_name_are_told():
    from prometheus_client.parser import text_string_to_metric_families

    page = (ROOT / "tests" / "golden" / "summary-page.txt").read_text()
    told = {family.name for family in text_string_to_metric_families(page)}

    assert {"stagewatch_latency_quantile_seconds", "stagewatch_answers_groups_left_out"} <= told
    assert "stagewatch_latency_quantile_seconds" in (DOCS / "grafana.md").read_text()
