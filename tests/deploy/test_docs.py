"""The pages about running it say only what is there."""

import re
import shlex
import subprocess

import pytest
import yaml

from stagewatch.config import load
from tests.deploy.chart import CHART
from tests.deploy.containerfile import CONTAINERFILE, stages
from tests.paths import ROOT

NAMES = (
    "build-the-images",
    "on-sagemaker-and-hyperpod",
    "run-it-in-kubernetes",
    "run-it-with-compose",
    "run-it-with-systemd",
)
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in NAMES}
ALL = "\n".join(PAGES.values())


def blocks(page, language=""):
    return [
        re.sub(r"^ {3}", "", text, flags=re.MULTILINE) if indent else text
        for indent, text in re.findall(
            rf"^( *)```{language}\n(.*?)^ *```", PAGES[page], re.MULTILINE | re.DOTALL
        )
    ]


def test_every_file_that_a_page_names_is_there():
    named = set(re.findall(r"\b(deploy/[A-Za-z0-9._/-]+[A-Za-z0-9])", ALL))

    assert len(named) > 10
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_every_value_that_is_set_on_a_command_line_is_one_of_the_chart():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    paths = re.findall(r"--set ([a-zA-Z.]+)=", ALL)

    for path in paths:
        here = values
        for name in path.split("."):
            here = here[name]
    assert len(paths) >= 4


def test_every_target_and_argument_of_a_build_is_one_of_the_container_file():
    text = CONTAINERFILE.read_text()
    known = set(re.findall(r"^ARG (\w+)", text, re.MULTILINE))

    assert (
        set(re.findall(r"--target (\w+)(?![\w:])", ALL))
        == {"server", "sidecar"}
        <= stages(text).keys()
    )
    assert set(re.findall(r"--build-arg (\w+)=", ALL)) == known
    for variant in re.findall(r"SIDECAR=(\S+?)`", ALL):
        assert (ROOT / "requirements" / f"image-{variant}.txt").exists()


def test_every_unit_is_listed_with_the_file_that_it_reads():
    page = PAGES["run-it-with-systemd"]

    for unit in (ROOT / "deploy" / "systemd").iterdir():
        (config,) = re.findall(r"--config (\S+)", unit.read_text())
        row = next(
            line
            for line in page.splitlines()
            if line.startswith(f"| `{unit.name.replace('@', '@chat')}`")
        )
        assert config.replace("%i", "chat") in row


@pytest.mark.parametrize("kind", ["engine", "gpu"])
def test_the_configuration_of_a_sagemaker_container_is_one_that_stagewatch_takes(
    kind, tmp_path, monkeypatch
):
    (text,) = [each for each in blocks("on-sagemaker-and-hyperpod", "yaml") if "exporters" in each]
    (tmp_path / "engine.yaml").write_text(text)
    told = {
        "STAGEWATCH_URL": "https://collector",
        "STAGEWATCH_SENDER_TOKEN": "x",
        "ENDPOINT_NAME": "chat",
        "HOSTNAME": "h",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    sidecar = getattr(load(tmp_path / "engine.yaml").exporters, kind)

    assert (sidecar.endpoint, sidecar.token.get_secret_value()) == ("https://collector", "x")


def test_the_wrapper_of_a_sagemaker_container_starts_commands_that_there_are_and_ends_as_the_engine():
    (script,) = [
        each for each in blocks("on-sagemaker-and-hyperpod", "sh") if each.startswith("#!/bin/sh")
    ]
    commands = [
        shlex.split(line) for line in script.splitlines() if line.startswith("/opt/stagewatch")
    ]

    assert [words[1:3] for words in commands] == [["exporter", "engine"], ["exporter", "gpu"]]
    assert all(words[-1] == "&" for words in commands)
    assert script.rstrip().splitlines()[-1] == 'exec "$@"'


def test_the_copy_before_an_upgrade_holds_the_data_and_not_a_link_to_it(tmp_path):
    """With DynamicUser systemd makes the state directory a link."""
    page = (ROOT / "docs" / "upgrade.md").read_text()
    (line,) = [each.strip() for each in page.splitlines() if each.strip().startswith("cp -a")]
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "telemetry.db").write_text("data")
    (tmp_path / "stagewatch").symlink_to("private")

    subprocess.run(["sh", "-c", line.replace("/var/lib", str(tmp_path))], check=True)
    (tmp_path / "private" / "telemetry.db").unlink()

    assert (tmp_path / "stagewatch.before" / "telemetry.db").read_text() == "data"
