"""`stagewatch exporter engine`: options, one reading, and an end that is asked for politely."""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from domain.errors import ConfigError
from stagewatch import exporter_command
from tests.exporters.fake_engine import answering, serving
from tests.exporters.test_run import OK
from tests.paths import RECORDED, ROOT

PAGE = (RECORDED / "vllm" / "overload" / "98-after.prom").read_bytes()
ALONE = "import sys; from tests.exporters.test_command import main; sys.exit(main(sys.argv[1:]))"


def parsed(*words):
    parser = argparse.ArgumentParser()
    exporter_command.add_parser(parser.add_subparsers(required=True))
    return parser.parse_args(["exporter", "engine", *words])


def main(words):
    return exporter_command.run(parsed(*words))


def settings(*words):
    return exporter_command._settings(parsed(*words))


def test_one_reading_is_printed(capsys):
    with serving(answering(PAGE)) as engine:
        status = main(["--target", engine.url, "--service", "chat", "--once"])

    assert status == 0
    assert "n=144" in capsys.readouterr().out


def test_a_target_that_does_not_answer_is_status_1(capsys):
    with serving(answering(b"", status=503)) as engine:
        status = main(["--target", engine.url, "--service", "chat", "--once"])

    assert status == 1
    assert "not observed (http_503)\n  ! " in (told := capsys.readouterr().out)
    assert "it answers 503" in told


def test_a_host_that_nobody_knows_is_no_question_of_the_page(capsys):
    status = main(["--target", "http://nobody.invalid:8000", "--service", "chat", "--once"])
    told = capsys.readouterr().out

    assert status == 1
    assert "not observed (unreachable)" in told
    assert "Is the host's name right, and is there a way to it from here?" in told


def test_one_service_and_one_role_go_for_all_targets():
    told = settings(
        *("--target", "http://a", "--target", "http://b", "--service", "chat", "--role", "decode")
    )

    assert [(each.url, each.service, each.role) for each in told.targets] == [
        ("http://a", "chat", "decode"),
        ("http://b", "chat", "decode"),
    ]


def test_or_each_target_has_its_own():
    told = settings(
        *("--target", "http://a", "--target", "http://b", "--service", "x", "--service", "y")
    )

    assert [each.service for each in told.targets] == ["x", "y"]


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="2 values for 1 targets"):
        settings("--target", "http://a", "--service", "x", "--service", "y")


def test_nothing_to_read_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match="Give `--target URL --service NAME`"):
        settings()


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"targets\.0\.url: 'engine' is no web address"):
        settings("--target", "engine", "--service", "chat")


def test_a_target_without_a_service_is_told_what_to_give():
    with pytest.raises(ConfigError, match=r"--service: a target needs it\. Give --service NAME"):
        settings("--target", "http://a")


def test_the_file_says_the_rest_and_the_command_line_wins(tmp_path):
    file = tmp_path / "stagewatch.yaml"
    file.write_text(
        "exporters:\n  engine:\n    interval_s: 2\n    token: hush\n"
        "    targets:\n      - {url: 'http://a', service: chat}\n"
    )

    from_file = settings("--config", str(file))
    other = settings("--config", str(file), "--target", "http://b", "--service", "voice")
    elsewhere = settings("--config", str(file), "--endpoint", "http://collector:4318")

    assert (from_file.interval_s, from_file.targets[0].url) == (2, "http://a")
    assert from_file.token.get_secret_value() == "hush"
    assert (other.interval_s, other.targets[0].service) == (2, "voice")
    assert elsewhere.endpoint == "http://collector:4318"


def test_exports_wait_among_the_data_unless_told(tmp_path):
    file = tmp_path / "stagewatch.yaml"
    targets = "targets: [{url: 'http://a', service: chat}]"
    file.write_text(f"store: {{data_dir: /data}}\nexporters: {{engine: {{{targets}}}}}\n")
    told = ("--target", "http://a", "--service", "chat")

    assert settings(*told).spool_dir == Path("stagewatch-data/spool")
    assert settings("--config", str(file)).spool_dir == Path("/data/spool")
    assert settings("--config", str(file), "--spool-dir", "/spool").spool_dir == Path("/spool")
    file.write_text(f"exporters: {{engine: {{spool_dir: null, {targets}}}}}\n")
    assert settings("--config", str(file)).spool_dir is None


def test_a_second_sidecar_of_a_machine_gets_its_own_port_and_folder_by_options():
    told = ("--target", "http://a", "--service", "chat")

    assert settings(*told).listen_port == 9464
    assert settings(*told, "--listen-port", "0").listen_port == 0
    with pytest.raises(ConfigError, match="listen_port"):
        settings(*told, "--listen-port", "70000")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_last_flush(number, tmp_path):
    file = tmp_path / "stagewatch.yaml"
    with serving(answering(OK)) as collector, serving(answering(PAGE)) as engine:
        target = f"{{url: '{engine.url}', service: chat}}"
        spool = f"listen_port: 0, spool_dir: '{tmp_path / 'spool'}'"
        file.write_text(f"exporters: {{engine: {{{spool}, targets: [{target}]}}}}")
        words = ["--config", str(file), "--endpoint", collector.root]
        alone = [sys.executable, "-c", ALONE, *words]
        process = subprocess.Popen(alone, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        while not collector.requests:
            assert process.poll() is None
            engine.closing.wait(0.02)
        process.send_signal(number)
        said, _ = process.communicate(timeout=10)

        assert process.returncode == 0
        assert f"reads 1 target every 1 s, sends to {collector.root}, own page http://127." in said


def test_importing_the_command_loads_none_of_what_it_runs():
    code = "import stagewatch.exporter_command, sys; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert {"httpx", "pydantic", "prometheus_client", "numpy", "asyncio"}.isdisjoint(loaded)
