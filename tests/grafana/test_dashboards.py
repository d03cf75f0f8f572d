"""The dashboards are made from code, speak our words, and ask what Prometheus understands."""

import json
import re
from urllib.parse import urlsplit

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from collector.query import Window
from dashboard.theme import LIGHT, LOOKS, STAGE_SHADES, State
from dashboard.url import View
from domain.metric import METRICS
from grafana.boards import BOARDS, written
from grafana.colours import BACKGROUNDS, STAGES, STATES, contrast
from tests.grafana.expressions import asked, dashboards, panels
from tests.paths import ROOT

WRITTEN = written()
READ = dashboards()
EVERY = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, board in READ.items()
    for panel in panels(board)
]


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_a_dashboard_is_the_reviewed_one_golden(golden, name):
    golden(f"../../grafana/dashboards/{name}", WRITTEN[name])


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_sdk_reads_what_it_wrote_and_knows_all_of_it(name):
    read = Dashboard.from_json(json.loads(WRITTEN[name]))

    again = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(read)
    assert json.loads(again) == json.loads(WRITTEN[name])
    assert read.uid == f"stagewatch-{name.removesuffix('.json')}"
    assert read.schema_version >= 36


def test_every_panel_of_a_dashboard_has_a_title_of_its_own_and_can_be_found():
    for board in READ.values():
        titles = [(panel["title"], panel["gridPos"]["y"]) for panel in panels(board)]
        assert all(title for title, _ in titles)
        assert len({panel["id"] for panel in panels(board)}) == len(titles)


@pytest.mark.parametrize("panel", EVERY)
def test_a_rate_looks_over_as_long_as_grafana_says(panel):
    for target in panel["targets"]:
        assert set(re.findall(r"\[(.*?)\]", target["expr"])) <= {"$__rate_interval"}


def test_a_variable_of_many_values_has_all_of_them_and_is_asked_for_by_expression():
    for board in READ.values():
        for each in board["templating"]["list"]:
            if each["type"] != "query":
                continue
            assert each["refresh"] == 2, "again when the time range changes"
            assert each["includeAll"] is each["multi"]
            asked_for = re.findall(rf'(\W+)"\$\{{?{each["name"]}\b', str(board["panels"]))
            assert set(asked_for) == {"=~"}


def test_no_dashboard_is_left_over():
    assert set(READ) == set(BOARDS)


@pytest.mark.parametrize("panel", EVERY)
def test_every_expression_is_promql(panel):
    for target in panel["targets"]:
        promql_parser.parse(asked(target["expr"]))
        assert "$" not in asked(target["expr"])


@pytest.mark.parametrize("panel", EVERY)
def test_every_panel_has_a_unit_and_asks_the_chosen_prometheus(panel):
    unit = panel["fieldConfig"]["defaults"].get("unit")

    assert unit or panel["type"] in ("state-timeline", "heatmap")
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("name", sorted(READ))
def test_no_panel_has_the_place_or_the_number_of_another(name):
    found = list(panels(READ[name]))
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in found]

    assert len(set(places)) == len(places)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in found)


@pytest.mark.parametrize("name", sorted(READ))
def test_a_dashboard_uses_the_variables_it_has_and_has_those_it_uses(name):
    board = READ[name]
    has = {each["name"] for each in board["templating"]["list"]}
    text = str([p["targets"] for p in panels(board)]) + str(board["links"])
    uses = set(re.findall(r"\$\{?([a-z_]+)", text)) - {"__rate_interval"}

    assert uses == has - {"datasource"}


@pytest.mark.parametrize("name", sorted(READ))
def test_the_link_of_a_dashboard_opens_a_page_of_ours(name):
    (ours,) = [link for link in READ[name]["links"] if link["type"] == "link"]
    assert ours["url"].startswith("${stagewatch}/")
    assert ours["keepTime"]
    assert ours["includeVars"]

    view = opened(ours["url"], "from=now-6h&to=now&var-service=a%2Fb&var-model=m&var-role=$__all")

    assert view.path() == filled(urlsplit(ours["url"]).path.removeprefix("${stagewatch}"))
    assert view.span_s == 6 * 3600
    assert ("model", "m") in view.where
    assert "role" not in dict(view.where)


@pytest.mark.parametrize("panel", EVERY)
def test_a_line_leads_to_what_it_is_of_over_the_same_time(panel):
    for link in panel["fieldConfig"]["defaults"].get("links", ()):
        asked_labels = set(re.findall(r"__field\.labels\.(\w+):", link["url"]))
        view = opened(link["url"], "")

        assert view.fixed == Window(since_s=1_790_000_000, until_s=1_790_003_600)
        assert all(told_by(view, name) == "a/b" for name in asked_labels)
        for target in panel["targets"]:  # else the address would have a hole
            kept = re.search(r"by \(([\w, ]+)\)", target["expr"])[1].split(", ")
            assert asked_labels <= {*kept}


def opened(url, more):
    """What our page shows when Grafana has filled the link in."""
    parts = urlsplit(filled(url) + ("&" if "?" in url else "?") + more)
    return View.from_link(parts.path, parts.query)


def filled(url):
    url = url.replace("${stagewatch}", "http://x:8400")
    url = url.replace("${__from}", "1790000000000").replace("${__to}", "1790003600000")
    return re.sub(r"\$\{[\w.]+:percentencode\}", "a%2Fb", url)


def told_by(view, name):
    return {"service": view.service, "objective": view.one}.get(name) or dict(view.where)[name]


def test_our_alerts_and_engines_are_annotations_on_every_dashboard():
    for board in READ.values():
        found = {each["name"]: each for each in board["annotations"]["list"]}
        assert {"Alerts", "Engines"} <= set(found)
        for name in ("Alerts", "Engines"):
            promql_parser.parse(found[name]["expr"])
            assert found[name]["enable"]


def test_the_states_are_our_words_with_shape_and_colour():
    (timeline,) = [p for p in panels(READ["fleet"]) if p["type"] == "state-timeline"]
    (mapping,) = timeline["fieldConfig"]["defaults"]["mappings"]

    told = {each["text"]: each["color"] for each in mapping["options"].values()}

    assert told == {f"{LOOKS[state].symbol} {state.value}": STATES[state] for state in State}


def test_every_colour_is_of_our_palette_and_can_be_seen_on_light_and_dark():
    ours = {LIGHT.accent}
    ours |= {colour for look in LOOKS.values() for colour in (look.light, look.dark)}
    ours |= {colour for shades in STAGE_SHADES.values() for colour in shades}

    assert {*STATES.values(), *STAGES.values()} <= ours | {"text"}
    assert len(set(STATES.values())) == len(State)
    for colour in set(STATES.values()) - {"text"}:
        assert min(contrast(colour, behind) for behind in BACKGROUNDS) >= 3


def test_no_dashboard_has_a_colour_that_is_not_ours():
    ours = {*STATES.values(), *STAGES.values(), "transparent", "text"}
    for board in READ.values():
        told = set(re.findall(r"#[0-9A-Fa-f]{6}\b", str(board)))
        assert told <= ours


def test_every_metric_of_ours_that_is_asked_for_is_one_that_we_tell():
    # the sidecars' and the collector's own names are proven by asking them: see the other tests
    gpu_and_engine = {each.full_name for each in METRICS.values()}
    text = " ".join(
        target["expr"] for p in (each.values[0] for each in EVERY) for target in p["targets"]
    )
    named = set(
        re.findall(
            r"stagewatch_(?:requests|kv|gpu|engine|preemptions|prefix|up|probe)[a-z_]*", text
        )
    )
    own = {"stagewatch_gpu_last_read_timestamp_seconds", "stagewatch_gpu_read_duration_seconds"}

    assert {name.removesuffix("_bucket") for name in named} - own <= gpu_and_engine


def test_provisioning_names_a_prometheus_and_the_folder_of_the_dashboards():
    folder = ROOT / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources/stagewatch.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards/stagewatch.yaml").read_text())["providers"]

    assert source["type"] == "prometheus"
    assert "/requests/" in source["jsonData"]["exemplarTraceIdDestinations"][0]["url"]
    assert provider["options"]["path"] in (ROOT / "docs" / "grafana.md").read_text()
