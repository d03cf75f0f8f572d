"""`stagewatch review`: a table in, a report and a kept review out; decisions by command and over HTTP."""

import csv
import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from alerts.access import Access
from alerts.access_settings import AuthSettings
from review.review_value import from_json
from review.shelf import Shelf
from review.verdict import VerdictKind
from stagewatch.__main__ import main
from stagewatch.config import load
from stagewatch.review_api import review_router
from stagewatch.review_question import promise_of
from tests.review import weeks
from tests.review.test_report import recorded

COLUMNS = [
    "ts_arrival", "t_prefill_start", "t_prefill_end", "t_join", "t_first", "t_last", "isl", "osl",
    "worker_p", "worker_d", "gpu_p", "gpu_d", "status",
]  # fmt: skip
CONFIG = """
store: {{data_dir: {folder}/data}}
prices: [{{per_hour: 10, source: "a list"}}]
review:
  promise: {{ttft_s: 0.5, tpot_s: 0.02, target: 0.95}}
  requests_min: 3000
  peak_hour_min: 200
"""


def write(path, period, most=10**9):
    """A period as a table."""
    seconds = (
        period.start_s, period.prefilled_s, period.joined_s, period.first_s, period.last_s,
    )  # fmt: skip
    names = [worker.name for worker in period.workers]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for place in range(min(len(period), most)):
            at_s = period.since_s + float(period.arrival_s[place])
            rows.writerow(
                [
                    at_s,
                    *(at_s + float(column[place]) for column in seconds),
                    period.prompt_tokens[place],
                    period.output_tokens[place],
                    names[period.prefiller[place]],
                    names[period.decoder[place]],
                    "A",
                    "A",
                    "ok",
                ]
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("review")
    (found / "sw.yaml").write_text(CONFIG.format(folder=found))
    period = weeks.week(1, 1, per_s=12)
    write(found / "week.csv", period)
    write(found / "short.csv", period, most=500)
    return found


def reviewed(folder, *words, table="week.csv"):
    words = [f"--file={folder / table}" if table else "", f"--config={folder / 'sw.yaml'}", *words]
    return main(["review", *filter(None, words)])


def test_a_week_in_a_table_becomes_a_report_and_is_kept(folder, capsys):
    out = folder / "report.json"

    assert reviewed(folder, "--service=chat", f"--out={out}") == 0

    told = from_json(out.read_text())
    said = capsys.readouterr()
    assert told.verdict.kind is VerdictKind.DO_NOTHING
    assert told.alternatives[0].money.per_hour == 20
    assert "stagewatch: 1 of 2: 2 merged" in said.err
    assert said.out == ""
    (kept,) = Shelf(folder / "data" / "reviews").all()
    assert kept.review == told
    assert kept.id in said.err


def test_too_few_requests_are_no_recommendation_and_say_what_is_missing(folder, capsys):
    assert reviewed(folder, "--service=short", table="short.csv") == 1

    said = capsys.readouterr()
    assert "No recommendation: 0 of 5 days, 500 of 3000 requests" in said.err
    assert said.out.startswith("# Weekly review of short")


def test_a_price_of_the_command_line_goes_before_the_files(folder, capsys):
    assert reviewed(folder, "--service=priced", "--gpu-price=A=2.5") == 0

    assert "840 USD" in capsys.readouterr().out  # 2 workers x 2.5 x 168 h


@pytest.mark.parametrize(
    ("words", "table", "says"),
    [
        (["--gpu-price=cheap"], "week.csv", "no price"),
        (["--gpu-price=-1"], "week.csv", "costs something"),
        (["--out=report.pdf"], "week.csv", "'.pdf' is no kind of report"),
        (["--from=now-7d"], "week.csv", "reviewed as a whole"),
        (["--target=2"], "week.csv", "that is no promise: target"),
        ([], "none.csv", "no such file"),
        ([], "sw.yaml", "no kind of table"),
        (["--from=now-7d"], None, "no beginning or no end"),
        (["--from=now-7d", "--to=now"], None, "no store here"),
        (["show", "20260101-0123456789"], None, "there is no review"),
    ],
)
def test_what_cannot_be_is_wrong_use_with_a_way_out(folder, capsys, words, table, says):
    config = [f"--config={folder / 'sw.yaml'}"] if words[:1] == ["show"] else []
    if config:
        assert main(["review", *words, *config]) == 2
    else:
        assert reviewed(folder, *words, table=table) == 2

    assert says in capsys.readouterr().err


def test_a_decision_is_kept_and_shown(folder, capsys):
    kept = Shelf(folder / "data" / "reviews").keep(recorded("move"))
    config = f"--config={folder / 'sw.yaml'}"

    words = ["--not-done", "--why=the launch comes first", "--author=ada", config]
    assert main(["review", "decide", kept.id, *words]) == 0
    assert main(["review", "show", kept.id, config]) == 0

    assert "Not done, says ada" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("objectives", "promise"),
    [
        (["p99 ttft <= 1.5s over 30d", "p95 tpot <= 40ms over 30d"], (1.5, 0.04, 0.95)),
        (
            [
                "p99 ttft <= 1.5s over 30d where service=code",
                "p99 ttft <= 2s over 30d where service=chat",
                "p99 tpot <= 40ms over 30d",
            ],
            (2.0, 0.04, 0.99),
        ),
    ],
)
def test_the_promise_is_that_of_the_objectives(tmp_path, objectives, promise):
    file = tmp_path / "sw.yaml"
    file.write_text(json.dumps({"objectives": objectives}))

    found = promise_of(load(file), "chat")

    assert (found.ttft_s, found.tpot_s, found.target) == promise


@pytest.fixture
def client(tmp_path):
    shelf = Shelf(tmp_path)
    kept = shelf.keep(recorded("move"))
    app = FastAPI()
    app.state.access = Access(
        AuthSettings.model_validate(
            {
                "tokens": [
                    {"name": "ada", "token": "a" * 32, "role": "responder"},
                    {"name": "eve", "token": "e" * 32, "role": "viewer"},
                ]
            }
        )
    )
    app.include_router(review_router(shelf, clock=lambda: 1_790_800_000.0))
    return TestClient(app), kept.id


def bearer(letter):
    return {"Authorization": f"Bearer {letter * 32}"}


def test_the_api_lists_reviews_and_tells_each(client):
    http, review_id = client
    (told,) = http.get("/api/v1/reviews").json()["reviews"]
    whole = http.get(f"/api/v1/reviews/{review_id}").json()

    assert told["id"] == review_id
    assert (told["verdict"], told["split"], told["aim"]) == ("move", "2P:6D", "3P:5D")
    assert told["decision"] is None
    assert from_json(json.dumps(whole["review"])) == recorded("move")
    assert http.get("/api/v1/reviews?service=code").json() == {"reviews": []}
    assert "<h1>Canary first" in http.get(f"/api/v1/reviews/{review_id}/report.html").text
    assert http.get("/api/v1/reviews/20260101-0123456789").status_code == 404


def test_a_responder_decides_under_the_name_of_their_token(client):
    http, review_id = client
    asked = {"done": True, "why": "canary went well", "author": "somebody else"}

    told = http.post(f"/api/v1/reviews/{review_id}/decision", json=asked, headers=bearer("a"))

    assert told.status_code == 200
    assert told.json()["decision"] == {
        "done": True, "why": "canary went well", "author": "ada", "at": "2026-09-30T20:26:40Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("who", "asked", "status"),
    [
        ("e", {"done": True, "why": "x"}, 403),
        ("x", {"done": True, "why": "x"}, 401),
        ("a", {"done": True, "why": " "}, 422),
        ("a", {"done": True}, 422),
        ("a", {"done": True, "why": "x" * 1001}, 422),
    ],
)
def test_who_may_not_and_what_says_nothing_is_refused(client, who, asked, status):
    http, review_id = client
    path = f"/api/v1/reviews/{review_id}/decision"

    assert http.post(path, json=asked, headers=bearer(who)).status_code == status
    assert http.get(f"/api/v1/reviews/{review_id}").json()["decision"] is None


def test_a_form_of_another_site_decides_nothing(client):
    http, review_id = client

    told = http.post(f"/api/v1/reviews/{review_id}/decision", data={"done": "true", "why": "x"})

    assert told.status_code in {401, 403, 415, 422}
    assert http.get(f"/api/v1/reviews/{review_id}").json()["decision"] is None
