"""The compose file: of its schema, with paths that exist and addresses that fit together."""

import json
import re
import shutil
import subprocess
from importlib.resources import files

import jsonschema
import pytest
import yaml

from stagewatch.__main__ import main
from stagewatch.config import load
from stagewatch.release import VERSION
from tests.deploy.containerfile import CONTAINERFILE, stages
from tests.paths import ROOT

COMPOSE = ROOT / "deploy" / "compose"
FILE = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES = FILE["services"]
SCHEMA = json.loads(
    (files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text()
)
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


@pytest.mark.parametrize("name", ["compose.yaml", "demo.yaml"])
def test_each_file_is_of_the_schema_of_compose_files(name):
    VALIDATOR.validate(yaml.safe_load((COMPOSE / name).read_text()))


def test_a_slip_is_found():
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"services": {"a": {"imagee": "x"}}})


def test_every_file_that_is_named_is_there():
    build = SERVICES["stagewatch"]["build"]
    context = (COMPOSE / build["context"]).resolve()
    named = [each["file"] for each in FILE["configs"].values()]
    named += [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service["volumes"]
        if volume.startswith(".")
    ]

    assert context == ROOT
    assert context / build["dockerfile"] == CONTAINERFILE
    assert build["target"] in stages(CONTAINERFILE.read_text())
    assert [each for each in named if not (COMPOSE / each).exists()] == []


def test_every_config_and_volume_that_is_used_is_declared():
    used = {each["source"] for service in SERVICES.values() for each in service.get("configs", [])}
    mounted = {
        volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]
    }

    assert used == FILE["configs"].keys()
    assert {each for each in mounted if not each.startswith(".")} == FILE["volumes"].keys()


def test_nothing_is_open_to_other_machines_unless_somebody_says_so():
    ports = [port for service in SERVICES.values() for port in service["ports"]]

    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)


def test_no_service_may_more_than_it_needs_and_none_has_a_password_of_ours():
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("read_only", False) is (name != "grafana")
        assert not service["image"].endswith(":latest")
        for key, value in service.get("environment", {}).items():
            assert ("TOKEN" not in key and "PASSWORD" not in key) or value.startswith("${")


def test_our_image_is_the_one_that_is_built_here():
    assert SERVICES["stagewatch"]["image"] == f"stagewatch-server:{VERSION}"


def test_stagewatch_takes_its_configuration(monkeypatch):
    monkeypatch.setenv("STAGEWATCH_SENDER_TOKEN", "one")

    config = load(COMPOSE / "stagewatch.yaml")
    shipped = load(ROOT / "deploy" / "containers" / "stagewatch.yaml")

    volumes = [volume.split(":")[1] for volume in SERVICES["stagewatch"]["volumes"]]
    for each in (config, shipped):
        assert str(each.store.data_dir) in volumes
        assert (each.dashboard.host, each.collector.host) == ("0.0.0.0", "0.0.0.0")  # noqa: S104 - in a container


def test_the_ports_that_are_published_are_those_that_stagewatch_listens_on():
    config = load(ROOT / "deploy" / "containers" / "stagewatch.yaml")
    inside = {int(port.rpartition(":")[2]) for port in SERVICES["stagewatch"]["ports"]}
    (exposed,) = stages(CONTAINERFILE.read_text())["server"].said("EXPOSE")

    listening = {
        config.dashboard.port,
        config.collector.otlp_http_port,
        config.collector.otlp_grpc_port,
    }
    assert inside == {int(port) for port in exposed.split()} == listening


@pytest.mark.promtool
def test_prometheus_takes_its_configuration_and_scrapes_the_pages():
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine")
    file = COMPOSE / "prometheus.yml"
    command = ["promtool", "check", "config", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (job,) = yaml.safe_load(file.read_text())["scrape_configs"]

    assert done.returncode == 0, done.stderr
    assert job["static_configs"] == [{"targets": ["stagewatch:8400"]}]


def test_grafana_is_told_what_its_data_source_asks_for_and_finds_the_dashboards():
    source = (ROOT / "grafana/provisioning/datasources/stagewatch.yaml").read_text()
    boards = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/stagewatch.yaml").read_text())
    asked = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)\}", source))
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])

    assert asked <= SERVICES["grafana"]["environment"].keys()
    assert SERVICES["grafana"]["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    assert mounts["../../grafana/dashboards"] == boards["providers"][0]["options"]["path"]


def test_the_demo_is_a_command_that_there_is(capsys):
    demo = yaml.safe_load((COMPOSE / "demo.yaml").read_text())["services"]["stagewatch"]["command"]

    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    helped = capsys.readouterr().out

    assert demo[0] == "demo"
    assert [word for word in demo if word.startswith("--") and word not in helped] == []
