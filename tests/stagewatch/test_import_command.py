"""Real recordings through `stagewatch import`, and the right numbers out of `stagewatch query`."""

import json
import math
import shutil

import pytest

from stagewatch.__main__ import main
from tests.paths import RECORDED

OVERLOAD = RECORDED / "vllm" / "overload"
WHOLE_DAY = ["--from", "2026-11-29T00:00:00Z", "--to", "2026-11-30T00:00:00Z"]
QUANTILES = {"P50": "0.5", "P95": "0.95", "P99": "0.99"}
BOUND = 0.00542


@pytest.fixture
def ask(capsys):
    """What a query answers, as JSON."""

    def answer(data_dir, kind, *options):
        capsys.readouterr()
        where = ["--data-dir", str(data_dir), "--format", "json"]
        assert main(["query", kind, *where, *WHOLE_DAY, *options]) == 0
        return json.loads(capsys.readouterr().out)

    return answer


@pytest.fixture(scope="module")
def truth():
    return json.loads((RECORDED / "vllm" / "truth.json").read_text())["overload"]


@pytest.fixture(scope="module")
def spans(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("spans")
    assert main(["import", "--data-dir", str(data_dir), str(OVERLOAD / "all-spans.bin")]) == 0
    return data_dir


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("pages")
    files = [str(path) for path in sorted(OVERLOAD.glob("*.prom"))]
    assert main(["import", "--data-dir", str(data_dir), "--service", "chat", *files]) == 0
    return data_dir


def one_point(answer):
    (series,) = answer["series"]
    (point,) = series["points"]
    return point


@pytest.mark.parametrize("q", QUANTILES)
@pytest.mark.parametrize("metric", ["ttft", "tpot", "e2e", "queue", "prefill", "decode"])
def test_spans_give_quantiles_within_the_bound(ask, spans, truth, metric, q):
    exact = truth["spans_all_136"][metric][q]

    point = one_point(ask(spans, "quantile", "--metric", metric, "--q", QUANTILES[q]))

    assert point["n"] == 136
    assert abs(point["value"] / exact - 1) <= BOUND
    assert point["low"] <= exact <= point["high"]


@pytest.mark.parametrize("q", QUANTILES)
def test_what_no_stage_explains_is_a_stage_too(ask, spans, truth, q):
    exact = truth["spans_all_136"]["unnamed (e2e - queue - prefill - decode)"][q]

    point = one_point(ask(spans, "quantile", "--metric", "overhead", "--q", QUANTILES[q]))

    assert abs(point["value"] / exact - 1) <= BOUND


def test_the_stages_of_every_request_sum_to_its_e2e(ask, spans):
    requests = ask(spans, "requests", "--limit", "200")["requests"]

    assert len(requests) == 136
    for request in requests:
        stages = [value for value in request["stages_s"].values() if value is not None]
        assert sum(stages) == pytest.approx(request["e2e_s"], abs=2e-6)


@pytest.mark.parametrize("metric", ["ttft", "queue", "prefill", "decode", "e2e"])
def test_pages_give_intervals_that_contain_the_truth(ask, pages, truth, metric):
    known = truth["client"]["ttft"] if metric == "ttft" else None
    for name, q in QUANTILES.items():
        point = one_point(ask(pages, "quantile", "--metric", metric, "--q", q))
        exact = (known or truth["spans_of_the_load_134"][metric])[name]

        assert point["value"] is None
        assert point["low"] <= exact <= (point["high"] or math.inf)


WIDEST = {  # as the prototype's measure.py prints them for these pages
    ("ttft", "0.5"): (9.9349, 12.6078),
    ("ttft", "0.99"): (14.5140, 20.0861),
    ("queue", "0.5"): (9.9349, 11.8146),
    ("queue", "0.95"): (14.2030, 15.1566),
    ("prefill", "0.5"): (0.0, 0.1086),
    ("prefill", "0.95"): (0.0632, 0.3005),
    ("decode", "0.5"): (0.9892, 1.4609),
    ("decode", "0.95"): (1.8143, 2.0218),
    ("e2e", "0.5"): (9.9349, 13.6009),
    ("e2e", "0.95"): (15.1566, 20.0861),
}


@pytest.mark.parametrize(("metric", "q"), WIDEST)
def test_pages_give_intervals_no_wider_than_the_sums_allow(ask, pages, metric, q):
    point = one_point(ask(pages, "quantile", "--metric", metric, "--q", q))
    low, high = WIDEST[metric, q]

    assert point["low"] >= low - 1e-4
    assert point["high"] <= high + 1e-4


def test_requests_that_started_and_never_finished_are_shown(ask, pages):
    (group,) = ask(pages, "stages")["series"]

    assert (group["flow"]["started"], group["flow"]["finished"]) == (144, 134)
    assert group["flow"]["unfinished"] == 10


def test_client_and_server_of_the_same_request_give_its_network(ask, truth, tmp_path):
    files = [str(OVERLOAD / "client.jsonl"), str(OVERLOAD / "all-spans.bin")]
    assert main(["import", "--data-dir", str(tmp_path), *files]) == 0  # the service is the spans'

    for name, q in QUANTILES.items():
        point = one_point(ask(tmp_path, "quantile", "--metric", "network", "--q", q))
        assert point["n"] == 134
        assert abs(point["value"] / truth["client_minus_span"]["ttft"][name] - 1) <= BOUND
    server = one_point(ask(tmp_path, "quantile", "--metric", "ttft", "--q", "0.5"))
    client = ask(tmp_path, "quantile", "--metric", "ttft", "--q", "0.5", "--where", "source=client")
    assert (server["n"], one_point(client)["n"]) == (136, 134)


def test_a_disaggregated_request_counts_once(ask, tmp_path):
    folder = RECORDED / "vllm-disagg"
    options = []
    for role in ("prefill", "decode"):
        options += ["--role", f"vllm-{role}={role}", "--rename", f"vllm-{role}=chat"]
    files = [str(folder / "all-spans.bin"), str(folder / "client.jsonl")]
    told = ["import", "--data-dir", str(tmp_path), *options, *files]
    assert main(told) == 0

    assert one_point(ask(tmp_path, "quantile", "--metric", "ttft", "--q", "0.5"))["n"] == 40
    assert one_point(ask(tmp_path, "quantile", "--metric", "decode", "--q", "0.5"))["n"] == 40
    assert one_point(ask(tmp_path, "quantile", "--metric", "kv_transfer", "--q", "0.5"))["n"] == 40


def test_everything_a_real_vllm_left_behind_can_be_imported_twice(ask, tmp_path, capsys):
    taken = ("*.bin", "spans/*.bin", "all-spans.otlp.json", "client.jsonl", "*.prom")
    files = [str(path) for pattern in taken for path in sorted(OVERLOAD.glob(pattern))]
    told = ["import", "--data-dir", str(tmp_path), "--service", "vllm-tiny", *files]

    assert main(told) == 0
    once = ask(tmp_path, "stages")["series"]
    assert main(told) == 0
    twice = ask(tmp_path, "stages")["series"]

    capsys.readouterr()
    assert once == twice
    assert once[0]["e2e"]["n"] == 136


def test_one_bad_file_does_not_stop_the_others(tmp_path, capsys):
    garbage = tmp_path / "garbage.bin"
    garbage.write_bytes(b"\xff" * 100)
    whole = shutil.copy(OVERLOAD / "all-spans.bin", tmp_path / "good.bin")

    assert main(["import", "--data-dir", str(tmp_path / "data"), str(garbage), str(whole)]) == 1

    told = capsys.readouterr()
    assert "neither an ExportTraceServiceRequest" in told.err
    assert "148 spans or points taken" in told.out


@pytest.mark.parametrize("wrong", ["--role=prefill", "--role=a=boss", "--rename=x"])
def test_a_malformed_wish_is_refused(tmp_path, capsys, wrong):
    assert main(["import", "--data-dir", str(tmp_path), wrong, "x.bin"]) == 2

    assert "Use" in (words := capsys.readouterr().err) or "Write" in words
