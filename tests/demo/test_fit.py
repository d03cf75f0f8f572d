"""The fit: the figures that stand beside the parameters are the parameters' own."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewatch.demo import fit
from stagewatch.demo.traffic import PARAMETERS, load_models
from tests.paths import ROOT, SHARED

TRACES = json.loads(PARAMETERS.read_text())["traces"]
MODELS = load_models()
REAL = SHARED / "data" / "traces"

needs_traces = pytest.mark.skipif(
    not REAL.is_dir(), reason="the public traces are not beside this checkout"
)


@pytest.mark.parametrize("name", sorted(TRACES))
def test_the_recorded_goodness_is_what_the_parameters_generate(name):
    recorded = TRACES[name]["goodness"]
    samples = [
        fit.generated(MODELS[name], recorded["requests"], seed) for seed in recorded["seeds"][:10]
    ]

    each = [fit.figures(sample) for sample in samples]

    for figure, value in recorded["generated"].items():
        assert np.mean([found[figure] for found in each]) == pytest.approx(
            value, rel=0.02, abs=1e-3
        )


@pytest.mark.parametrize("name", sorted(TRACES))
def test_what_is_generated_is_near_the_real_trace(name):
    recorded = TRACES[name]["goodness"]
    real, made = recorded["real"], recorded["generated"]

    assert max(recorded["distance"].values()) < 0.05
    for figure in real:
        if figure.startswith(("prompt", "output")):
            assert made[figure] == pytest.approx(real[figure], rel=0.10), figure
    for figure in ("requests_per_s", "gap_s_mean", "dispersion_1s", "dispersion_10s"):
        assert made[figure] == pytest.approx(real[figure], rel=0.15), figure


def test_minutes_of_the_azure_traces_swing_as_the_real_ones_do():
    for name in ("azure2023_conv", "azure2023_code"):
        recorded = TRACES[name]["goodness"]

        assert recorded["generated"]["dispersion_60s"] == pytest.approx(
            recorded["real"]["dispersion_60s"], rel=0.35
        )


@needs_traces
@pytest.mark.parametrize("name", sorted(TRACES))
def test_the_figures_called_real_are_those_of_the_real_trace(name):
    real = fit.read(REAL / f"{name}.parquet")

    assert len(real.at_s) == TRACES[name]["goodness"]["requests"]
    assert fit.figures(real) == TRACES[name]["goodness"]["real"]


@needs_traces
@pytest.mark.parametrize("name", sorted(TRACES))
def test_a_generated_hour_is_as_far_from_the_real_one_as_the_file_says(name):
    real = fit.read(REAL / f"{name}.parquet")
    made = fit.generated(MODELS[name], len(real.at_s), 99)

    assert fit.distance(real.prompt_tokens, made.prompt_tokens) < 0.04
    assert fit.distance(real.output_tokens, made.output_tokens) < 0.04


@needs_traces
def test_fitting_again_gives_the_same_tables():
    name = "mooncake_fast25_conversation"
    real = fit.read(REAL / f"{name}.parquet")

    assert fit.fit(name, real, 1) == MODELS[name]


def test_the_documentation_shows_the_table_of_the_parameters():
    assert fit.table(TRACES) in (ROOT / "docs" / "demo-traffic.md").read_text()


def test_every_trace_names_its_source_and_licence():
    for trace in TRACES.values():
        assert trace["source"].startswith("https://")
        assert trace["licence"]


@given(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=300))
def test_knots_span_the_values_and_never_fall(values):
    table = fit.knots(np.array(values), 0.001)

    assert table.values[0] == pytest.approx(min(values), rel=1e-2, abs=1e-4)
    assert table.values[-1] == pytest.approx(max(values), rel=1e-4, abs=1e-4)
    assert len(table.shares) <= fit.KNOTS


def test_knots_reproduce_a_distribution_they_were_made_from():
    values = np.random.default_rng(1).lognormal(3.0, 1.0, 20_000)
    table = fit.knots(values, 0.001)
    drawn = np.array([table.at(share) for share in np.random.default_rng(2).random(20_000)])

    assert fit.distance(values, drawn) < 0.02
    assert drawn.mean() == pytest.approx(values.mean(), rel=0.03)


def test_a_steady_stream_is_less_bursty_than_chance_and_chance_is_one():
    steady = fit.Sample(np.arange(0, 1000, 0.1), np.ones(10_000), np.ones(10_000))
    gaps = np.random.default_rng(3).exponential(0.1, 200_000)
    chance = fit.Sample(np.cumsum(gaps), np.ones(200_000), np.ones(200_000))

    assert fit.burstiness(steady, 10.0) < 0.05
    assert fit.burstiness(chance, 10.0) == pytest.approx(1.0, abs=0.1)


def test_the_distance_of_a_sample_to_itself_is_none_and_to_another_world_is_one():
    values = np.arange(100.0)

    assert fit.distance(values, values) == 0
    assert fit.distance(values, values + 1000) == 1
