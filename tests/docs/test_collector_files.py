"""The files for an OpenTelemetry Collector that the documentation shows: whole, and unsampled."""

import pytest
import yaml

from tests.docs.reading import BLOCKS

PAGE = "docs/behind-an-otel-collector.md"
KINDS = {
    "receivers": {"otlp"},
    "processors": {"batch", "tail_sampling", "filter", "resource"},
    "exporters": {"otlphttp"},
    "extensions": {"file_storage"},
}
"""Components of the OpenTelemetry Collector's contrib distribution that the page uses."""
COLLECTORS = [block.text for block in BLOCKS if (block.page, block.kind) == (PAGE, "yaml")]


def test_the_page_shows_three_files():
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
