"""`stagewatch rules export`: a file that Prometheus takes, notes on what is lost, and clear errors."""

import shutil
import subprocess

import pytest
import yaml

from stagewatch.__main__ import main
from tests.paths import RECORDED

PAGE = RECORDED / "vllm" / "overload" / "05-during.prom"


def objectives(folder, text="- p99 ttft <= 1.5s over 30d where use_case=chat\n"):
    path = folder / "slo.yaml"
    path.write_text(text)
    return str(path)


def exported(folder):
    return yaml.safe_load((folder / "out" / "stagewatch-slo.rules.yml").read_text())


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus's promtool")
def test_the_file_is_taken_by_prometheus_and_what_is_lost_is_said(tmp_path, capsys):
    status = main(["rules", "export", "--out", str(tmp_path / "out"), objectives(tmp_path)])

    told = capsys.readouterr()
    file = tmp_path / "out" / "stagewatch-slo.rules.yml"
    taken = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert (status, taken.returncode) == (0, 0)
    assert told.out.startswith(str(file))
    assert "note: chat-ttft: Prometheus resolves an alert whose data are gone" in told.err


@pytest.mark.skipif(not PAGE.exists(), reason="the recorded vLLM page is not here")
def test_an_engines_own_histogram_is_used_at_the_edges_of_its_page(tmp_path):
    status = main(
        [
            *("rules", "export", "--out", str(tmp_path / "out")),
            *("--histogram", "ttft=vllm:time_to_first_token_seconds", "--page", str(PAGE)),
            objectives(tmp_path),
        ]
    )

    text = str(exported(tmp_path))
    assert status == 0
    assert 'vllm:time_to_first_token_seconds_bucket{use_case="chat",le="2.5"}' in text
    assert 'le="1.0"' in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--histogram", "ttf=x"], "Did you mean 'ttft'?"),
        (["--histogram", "ttft"], "names no histogram"),
        (["--histogram", "ttft=x"], "the edges of a classic histogram are not known"),
        (["--histogram", "ttft=x", "--page", "nowhere.txt"], "nowhere.txt: is no page of metrics"),
    ],
)
def test_a_wrong_order_is_one_error_with_the_way_out(tmp_path, capsys, arguments, said):
    status = main(
        ["rules", "export", "--out", str(tmp_path / "out"), *arguments, objectives(tmp_path)]
    )

    assert status == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_native_histograms_need_no_edges(tmp_path):
    status = main(
        ["rules", "export", "--native", "--out", str(tmp_path / "out"), objectives(tmp_path)]
    )

    assert status == 0
    assert "histogram_fraction(0, 1.5, sum(rate(stagewatch_ttft_seconds" in str(exported(tmp_path))


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "out").write_text("a file stands here")

    status = main(["rules", "export", "--out", str(tmp_path / "out"), objectives(tmp_path)])

    assert status == 1
    assert "cannot be written" in capsys.readouterr().err


def test_alerts_link_to_the_runbook_of_the_pages_that_are_named(tmp_path):
    out = str(tmp_path / "out")
    pages = ("--pages-url", "https://stagewatch.example/")
    assert main(["rules", "export", "--out", out, *pages, objectives(tmp_path)]) == 0

    alerts = [rule for group in exported(tmp_path)["groups"] for rule in group["rules"]]
    links = {rule["annotations"]["runbook_url"] for rule in alerts if "alert" in rule}
    assert links == {
        f"https://stagewatch.example/runbook#{anchor}" for anchor in ("page", "ticket", "no-data")
    }
