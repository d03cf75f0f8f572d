"""The reference pages say what the code does, because they are made from it."""

import httpx
import pytest

from stagewatch.__main__ import parser
from stagewatch.reference import pages
from tests.e2e.running import Stagewatch


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    nobody = {"STAGEWATCH_REMOTE_WRITE_OUT__URL": "http://127.0.0.1:9/"}
    folder = tmp_path_factory.mktemp("reference")
    with Stagewatch("up", "--data-dir", str(folder), **nobody) as server:
        openapi = server.get("/openapi.json")
        own_metrics = httpx.get(f"{server.pages_url}/metrics").text
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "96")
        return pages(openapi, parser(), own_metrics)


@pytest.mark.parametrize(
    "name",
    [
        "settings.md",
        "metrics.md",
        "commands.md",
        "engines.md",
        "diagnosis.md",
        "runbook.md",
        "api.md",
    ],
)
def test_the_reference_is_the_reviewed_one_golden(made, golden, name):
    golden(f"../../docs/reference/{name}", made[name])


def test_every_setting_is_explained(made):
    rows = [line for line in made["settings.md"].splitlines() if line.startswith("| `")]

    assert len(rows) > 50
    assert not [row for row in rows if row.endswith("|  |")]


def test_every_engine_has_its_table(made):
    for title in ("vLLM", "SGLang", "Hugging Face TGI", "LiteLLM proxy", "llama.cpp"):
        assert f"## {title}\n" in made["engines.md"]
    assert "| `ttft_estimated` | sum of histograms |" in made["engines.md"]
    assert "litellm_deployment_latency" not in made["engines.md"]


@pytest.mark.parametrize(
    "command", ["demo", "up", "import", "query quantile", "exporter engine", "slo test"]
)
def test_every_command_has_its_help(made, command):
    assert f"## stagewatch {command}\n" in made["commands.md"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/traces",
        "/v1/metrics",
        "/api/v1/quantile",
        "/api/v1/stages",
        "/api/v1/requests/{trace_id}",
        "/api/v1/slos",
        "/api/v1/alerts/{alert_id}",
        "/metrics",
        "/healthz",
        "/readyz",
    ],
)
def test_every_fixed_path_is_in_the_api(made, path):
    assert f"`{path}`" in made["api.md"]
