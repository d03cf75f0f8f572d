"""What a ladder says: the same in sentences, JSON, CSV and HTML, and nothing that it does not know."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from domain.errors import ConfigError
from exporters.ladder import output
from exporters.ladder.cost import Price
from exporters.ladder.document import SCHEMA
from exporters.ladder.figures import Client, StepFigures, run_figures
from exporters.ladder.measurement import Measurement
from exporters.ladder.objective import parse_goal
from exporters.ladder.page import page
from exporters.ladder.plan import Plan, Step
from exporters.ladder.table import as_csv, as_text
from exporters.ladder.words import caveats, findings
from tests.exporters.ladder.planted import QUICK, SHORT, Server, climbed, measurement, run_of

HOSTILE = '<script>alert("x")</script>&=HYPERLINK'
GOAL = parse_goal(["ttft<=500ms"])


def short_of(server, concurrencies=(1, 4), **more):
    return measurement(steps=climbed(server, concurrencies, goal=GOAL), goal=GOAL, **more)


@pytest.fixture(scope="module")
def whole():
    return measurement()


def test_the_text_is_the_reviewed_one_golden(whole, golden):
    golden("ladder.txt", as_text(whole))


def test_the_document_is_the_reviewed_one_golden(whole, golden):
    shape = json.loads(output.as_json(whole))
    for each in shape["shapes"]:
        each["steps"] = each["steps"][2:3]

    golden("ladder.json", json.dumps(shape, indent=1, ensure_ascii=False) + "\n")


def test_the_document_is_one_json_object_without_nan(whole):
    told = json.loads(output.as_json(whole), parse_constant=pytest.fail)

    assert told["schema"] == SCHEMA
    assert [each["name"] for each in told["shapes"]] == ["short", "long"]
    assert told["shapes"][0]["knee"]["slots"] == pytest.approx(4, rel=0.03)
    assert told["ended"] is None


def test_csv_text_and_json_say_the_same_number(whole):
    (row,) = [r for r in csv.DictReader(io.StringIO(as_csv(whole))) if r["concurrency"] == "8"][:1]
    step = json.loads(output.as_json(whole))["shapes"][0]["steps"][3]

    assert float(row["ttft_p99_s"]) == step["latencies"]["ttft"]["p99"]["median"]
    assert f"{step['latencies']['ttft']['p99']['median'] * 1000:.0f} ms" in as_text(whole)
    assert row["usd_per_10000_output_tokens"]


def test_a_quantile_says_its_rank_and_n(whole):
    run = json.loads(output.as_json(whole))["shapes"][0]["steps"][0]["runs"][0]

    assert run["latencies"]["ttft"]["p99"]["rank"] == 99
    assert run["latencies"]["ttft"]["p99"]["n"] == 100


def test_failed_requests_are_counted_named_and_said():
    said = short_of(Server(fails_every=7))

    (about,) = [each for each in caveats(said) if "c=4" in each and "failed" in each]
    assert "rate limited (HTTP 429)" in about
    assert "They count as slower than all others, and as not good." in about
    told = json.loads(output.as_json(said))["shapes"][0]["steps"][1]
    assert told["latencies"]["ttft"]["p99"]["median"] is None
    assert told["good"] + sum(told["failures"].values()) == told["requests"]
    assert "–" in as_text(said)
    assert "never came" in page(said)


def test_an_objective_that_no_step_keeps_is_said():
    said = short_of(Server(first_s=0.7))

    assert (
        "At no step do 99 % of requests keep TTFT ≤ 500 ms: at 1 it is 0 of 300."
        in (findings(said)["short"])
    )


def test_few_requests_are_said_to_make_a_maximum():
    steps = climbed(Server(), (1, 4), requests=20)

    (said,) = caveats(measurement(steps=steps, goal=None))
    assert said.startswith("With fewer than 100 requests in a run the P99")
    assert said.endswith("maximum of n: n=20 in 2 steps.")
    assert not caveats(measurement(steps=climbed(Server(), (1, 4)), goal=None))


def test_a_client_that_was_too_slow_is_said_first_and_from_where():
    def client(concurrency):
        return Client(late_s=0.043, cpu_ratio=0.97) if concurrency >= 8 else QUICK

    steps = climbed(Server(), (1, 4, 8, 16), client=client)
    said = measurement(steps=steps, goal=None)

    assert caveats(said)[0] == (
        "short: from c=8 on the client is the bottleneck (its event loop was 43 ms late, it took "
        "97 % of a core): figures from there on are not believed; only objectives that were kept "
        "all the same count."
    )
    assert "c=8 !" in as_text(said)
    assert "client too slow" in page(said)


def test_a_machine_that_is_busy_with_something_else_is_told_apart():
    steps = climbed(Server(), (1, 4), client=lambda _: Client(late_s=0.05, cpu_ratio=0.05))

    assert (
        "so something else is busy on this machine"
        in (caveats(measurement(steps=steps, goal=None))[0])
    )


def test_a_client_that_is_a_little_late_says_what_that_blurs():
    steps = climbed(Server(), (1, 4), client=lambda _: Client(late_s=0.012, cpu_ratio=0.2))

    (said,) = caveats(measurement(steps=steps, goal=None))
    assert said == (
        "The client's event loop was up to 12 ms late: ITL P95 and P99 may be that much too long "
        "in 2 steps."
    )


def test_a_step_that_was_disturbed_is_said_and_drawn_hollow():
    def client(concurrency):
        return Client(late_s=0.043, cpu_ratio=0.97) if concurrency == 4 else QUICK

    said = measurement(steps=climbed(Server(), (1, 4, 8, 16), client=client), goal=None)

    assert caveats(said) == (
        "short c=4: the client was too slow for a while; no finding rests on that.",
    )
    assert page(said).count('"dot hollow"') > 3


def test_a_ladder_that_was_cut_short_says_so():
    said = short_of(Server(), ended="interrupted", notes=("short c=4 was stopped: interrupted",))

    assert caveats(said)[0] == "The ladder was not climbed to the end: interrupted."
    assert json.loads(output.as_json(said))["ended"] == "interrupted"
    assert "not climbed to the end" in page(said)


def test_lengths_that_differ_from_what_was_asked_are_said():
    shape = replace(SHORT, prompt_tokens=256, output_tokens=42)
    steps = tuple(
        replace(each, step=Step(shape=shape, concurrency=1)) for each in climbed(Server(), (1,))
    )
    said = caveats(measurement(steps=steps, goal=None, ignores_eos=False))

    assert "short: asked for prompts of 256 tokens, sent 128." in said
    assert (
        "short: asked for answers of 42 tokens, got 21 (the server was not told to ignore the end)."
        in said
    )


def test_without_a_price_nothing_is_said_of_money():
    plan = Plan(shapes=(SHORT,), concurrencies=(1, 4), price=Price())
    said = short_of(Server(), plan=plan)

    assert "$" not in as_text(said)
    assert "$" not in page(said)


def test_open_steps_say_what_arrivals_feel_like():
    step = Step(shape=SHORT, rate_hz=5.0)
    runs = tuple(run_figures(run_of(Server(), 2, number=n), step, GOAL) for n in (1, 2, 3))
    said = measurement(
        steps=(*climbed(Server(), (1, 4), goal=GOAL), StepFigures(step=step, runs=runs))
    )

    assert (
        "Poisson arrivals, which do not wait for answers, keep it up to 5/s."
        in (findings(said)["short"])
    )
    assert "5/s" in as_text(said)


def test_a_ladder_without_any_step_still_makes_every_report():
    nothing = measurement(steps=(), goal=None, ended="interrupted")

    assert isinstance(nothing, Measurement)
    assert "not climbed to the end" in as_text(nothing)
    assert len(as_csv(nothing).splitlines()) == 1
    assert json.loads(output.as_json(nothing))["shapes"] == []
    assert "<main></main>" in page(nothing)


class _Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def hostile(whole):
    return replace(whole, model=HOSTILE, address=f"http://x/{HOSTILE}", ended=HOSTILE)


def test_nothing_from_outside_becomes_part_of_the_page(hostile):
    made = page(hostile)

    assert "<script" not in made
    assert "&lt;script&gt;" in made


def test_no_text_from_outside_becomes_a_formula(whole):
    made = as_csv(replace(whole, model="=HYPERLINK(1)"))

    assert next(csv.DictReader(io.StringIO(made)))["model"] == "'=HYPERLINK(1)"


def test_the_page_is_whole_and_loads_nothing(whole):
    made, seen = page(whole), _Seen()
    seen.feed(made)

    assert not seen.open
    assert len(seen.ids) == len(set(seen.ids))
    assert not {tag for tag, _ in seen.tags} & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"url\(|@import|https?://(?!127\.0\.0\.1)", made)
    assert len(made) < 200_000


def test_every_picture_is_told_in_words(whole):
    seen = _Seen()
    seen.feed(page(whole))
    pictures = [attrs for tag, attrs in seen.tags if tag == "svg"]

    assert len(pictures) == 12
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set(attrs["aria-labelledby"].split()) <= set(seen.ids)
    assert "P99: 51 ms at 1, 3.23 s at 32" in page(whole)


@pytest.mark.parametrize("name", ["report", "report.txt", "report.HTML"])
def test_a_report_of_an_unknown_kind_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="is no kind of report"):
        output.check(tmp_path / name)


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written there"):
        output.check(tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize("ending", output.ENDINGS)
def test_a_report_is_written_whole(whole, tmp_path, ending):
    path = output.check(tmp_path / f"report{ending}")
    path.write_text("old")
    output.write(whole, path)

    assert path.stat().st_size > 1000
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
