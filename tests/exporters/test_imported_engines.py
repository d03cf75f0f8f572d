"""Pages of engines in the store: what `import` takes in and `query` gives out again."""

import json
import shutil

import pytest

from collector.query import Selection, Window
from collector.reader import StoreReader
from stagewatch.__main__ import main
from tests.paths import RECORDED

ENGINES = RECORDED / "engines"
HANG = RECORDED / "vllm-hang"
DAY = ["--from", "2026-11-29T00:00:00Z", "--to", "2026-11-30T00:00:00Z"]
AT_S = 1_795_966_000


@pytest.fixture
def imported(tmp_path, capsys):
    """Imports page texts of one target, scraped one second after the other, and asks for a metric."""

    def ask(*texts, kind="quantile", options=("--metric", "ttft", "--q", "0.5")):
        files = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number:02d}.prom"
            path.write_text(f"# scraped_at_unix {AT_S + number}\n{text}")
            files.append(str(path))
        data = str(tmp_path / "data")
        assert main(["import", "--data-dir", data, "--service", "chat", *files]) == 0
        capsys.readouterr()
        told = ["query", kind, "--data-dir", data, "--format", "json", *DAY, *options]
        assert main(told) == 0
        return json.loads(capsys.readouterr().out)["series"]

    return ask


@pytest.mark.parametrize("name", ["sglang-0.5.23-unified", "vllm-0.33.0-agg", "lmdeploy-HEAD-1"])
def test_an_only_page_is_in_the_store_with_all_that_it_counted(imported, name):
    n = {"sglang": 50, "vllm": 100, "lmdeploy": 20}[name.split("-")[0]]

    (series,) = imported((ENGINES / f"{name}.prom").read_text())

    assert [point["n"] for point in series["points"]] == [n]


def test_a_label_of_the_engine_is_there_to_ask_for(imported):
    text = (ENGINES / "sglang-0.5.23-unified.prom").read_text()
    asked = ("--metric", "ttft", "--q", "0.5", "--by", "engine")

    (series,) = imported(text, options=asked)

    assert series["labels"] == {"engine": "sglang"}


def test_of_two_pages_only_what_came_between_them_is_there(imported):
    text = (ENGINES / "litellm-1.110.2-1.prom").read_text()

    assert imported(text, text) == []


def test_a_frontend_and_its_worker_count_each_request_once(tmp_path, capsys):
    """The users' TTFT is the frontend's, the workers' stages stay theirs."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for path in (RECORDED / "dynamo").glob("*.prom"):
        shutil.copy(path, folder)
    data = str(tmp_path / "data")
    files = [str(path) for path in sorted(folder.glob("*.prom"))]
    assert main(["import", "--data-dir", data, "--service", "chat", *files]) == 0

    def n_of(metric, *where):
        capsys.readouterr()
        told = ["query", "quantile", "--data-dir", data, "--format", "json", *DAY]
        assert main([*told, "--metric", metric, "--q", "0.5", *where]) == 0
        return [p["n"] for s in json.loads(capsys.readouterr().out)["series"] for p in s["points"]]

    assert n_of("ttft") == [121]
    assert n_of("itl") == [6272]
    assert n_of("itl", "--where", "source=page") == [6272]


def test_the_hang_of_a_real_engine_is_in_the_store(tmp_path, capsys):
    files = []
    for path in sorted(HANG.glob("[0-9][0-9].prom")):
        copy = tmp_path / path.name
        copy.write_text(f"# scraped_at_unix {AT_S + int(path.stem)}\n{path.read_text()}")
        files.append(str(copy))
    data = str(tmp_path / "data")

    assert main(["import", "--data-dir", data, "--service", "chat", *files]) == 0

    capsys.readouterr()
    reader = StoreReader(tmp_path / "data")
    try:
        window = Window(since_s=AT_S, until_s=AT_S + 40)
        (series,) = reader.numbers("engine_stalled", Selection(window=window, step_s=10))
    finally:
        reader.close()
    assert {point.since_s - AT_S: point.high for point in series.points} == {
        0: 0,
        10: 1,
        20: 0,
        30: 0,
    }
