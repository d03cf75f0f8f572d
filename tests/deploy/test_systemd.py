"""The units, asked of systemd itself: it starts none of them."""

import re
import shutil
import subprocess

import pytest

from stagewatch.__main__ import main
from tests.paths import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMMAND = "/opt/stagewatch/bin/stagewatch"
MOST_EXPOSED = {"stagewatch-exporter-gpu": 20}
"""Of 100, as systemd counts; 15 where not said. GPUs want devices and all of /proc."""

ids = [each.stem for each in UNITS]


def settings(unit):
    lines = [line for line in unit.read_text().splitlines() if "=" in line and line[0] != "#"]
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def here(tmp_path):
    """A unit as it would be with Stagewatch installed: what it starts is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine")
    program = tmp_path / "stagewatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def placed(unit):
        copy = tmp_path / unit.name.replace("@.", "@chat.")
        copy.write_text(unit.read_text().replace(COMMAND, str(program)))
        return copy

    return placed


def analysed(*words):
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_systemd_finds_nothing_wrong_with_a_unit(here, unit):
    done = analysed("verify", here(unit))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_a_unit_is_as_little_exposed_as_it_can_be(here, unit):
    most = MOST_EXPOSED.get(unit.stem, 15)

    done = analysed("security", "--offline=true", f"--threshold={most}", here(unit))

    assert done.returncode == 0, done.stdout


def test_a_slip_in_a_unit_is_found(here, tmp_path):
    broken = tmp_path / "stagewatch.service"
    broken.write_text(UNITS[0].read_text().replace("ProtectHome=yes", "ProtectHome=perhaps"))

    assert "Failed to parse protect home value" in analysed("verify", here(broken)).stderr


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_what_a_unit_starts_is_a_command_that_there_is(unit, capsys):
    _, *words = settings(unit)["ExecStart"].split()
    kind = [word for word in words if not word.startswith(("-", "/"))]

    with pytest.raises(SystemExit) as ended:
        main([*kind, "--help"])
    helped = capsys.readouterr().out

    assert ended.value.code == 0
    assert [word for word in words if word.startswith("--") and word not in helped] == []


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_a_unit_writes_to_its_own_directory_alone(unit):
    said = settings(unit)
    state = said["StateDirectory"]

    assert said["WorkingDirectory"] == f"/var/lib/{state}"
    assert said["ProtectSystem"] == "strict"
    written = re.findall(r"/var/lib/\S+", said["ExecStart"] + " " + said.get("Environment", ""))
    assert all(place.startswith(f"/var/lib/{state}") for place in written)
    assert written


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_a_call_that_a_unit_may_not_make_is_refused_and_kills_nobody(unit):
    assert settings(unit)["SystemCallErrorNumber"] == "EPERM"
