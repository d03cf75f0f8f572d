"""Every YAML that the documentation shows to copy is right: ours is loaded, others' is known."""

import re
from hashlib import sha256

import pytest
import yaml

from alerts.definition import load as objectives
from stagewatch.__main__ import parser
from stagewatch.config import Config, load
from stagewatch.slo_command import run as slo
from tests.docs.reading import BLOCKS

SHOWN = [
    pytest.param(block, id=block.place)
    for block in BLOCKS
    if block.kind in ("yaml", "yml") and not block.page.startswith("docs/decisions/")
]
OTHERS = {
    "prometheus": {"scrape_configs", "remote_write", "global", "rule_files", "alerting"},
    "an OpenTelemetry Collector": {"receivers", "processors", "exporters", "extensions", "service"},
    "Kubernetes": {"apiVersion", "kind"},
    "compose": {"services", "volumes", "networks"},
    "kustomize": {"resources", "components"},
}
"""Top-level keys of what belongs to somebody else; their own tests look further."""


def kind_of(document):
    """Whose it is: `objectives`, `scenario`, `config`, or another program's name."""
    if isinstance(document, list):
        return "objectives"
    if "minutes" in document:
        return "scenario"
    keys = set(document)
    if keys <= set(Config.model_fields) and not ("receivers" in keys and "service" in keys):
        return "config"
    (found,) = [name for name, known in OTHERS.items() if keys & known]
    return found


@pytest.fixture
def secrets(monkeypatch, tmp_path):
    """What `${NAME}` and `${file:PATH}` of any page stand for."""

    def given(text):
        for name in re.findall(r"\$\{([A-Z_]+)\}", text):
            is_address = name.endswith(("WEBHOOK", "_URL")) and "STATE" not in name
            unlike = sha256(name.encode()).hexdigest()[:32]
            monkeypatch.setenv(name, "https://hooks.example/x" if is_address else unlike)
        (tmp_path / "secret").write_text("hush\n")
        return re.sub(r"\$\{file:[^}]+\}", f"${{file:{tmp_path / 'secret'}}}", text)

    return given


@pytest.mark.parametrize("block", SHOWN)
def test_every_yaml_is_right(block, secrets, tmp_path):
    text = secrets(block.text)
    path = tmp_path / "shown.yaml"
    path.write_text(text)

    for document in yaml.safe_load_all(text):
        match kind_of(document):
            case "config":
                load(path)
            case "objectives":
                assert objectives(path)
            case "scenario":
                assert slo(parser().parse_args(["slo", "test", str(path)])) == 0


def test_all_kinds_are_shown():
    kinds = {
        kind_of(document) for each in SHOWN for document in yaml.safe_load_all(each.values[0].text)
    }

    assert {"config", "objectives", "scenario", "prometheus"} <= kinds
