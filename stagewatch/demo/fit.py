"""The fit of the demo's traffic to real traces, and how well it matches.

`python -m stagewatch.demo.fit --traces DIR` reads the traces, writes `traffic.json` and prints the
table that stands in `docs/demo-traffic.md`. Only the parameters are kept, never a trace.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stagewatch.demo.traffic import PARAMETERS, Memory, Quantiles, Traffic, TrafficModel

__all__ = [
    "SOURCES",
    "Sample",
    "burstiness",
    "distance",
    "figures",
    "fit",
    "generated",
    "main",
    "read",
    "table",
]

Floats = NDArray[np.float64]

KNOTS = 20
RESOLUTION_S = 0.001
WINDOWS_S = (1.0, 10.0, 60.0)
SEEDS = tuple(range(1, 11))
_MEMORIES = (4.0, 40.0, 400.0, 1500.0)
_COARSE = (0.0, 0.02, 0.08)

SOURCES: dict[str, dict[str, str | int]] = {
    "azure2023_conv": {
        "source": "https://github.com/Azure/AzurePublicDataset @ b469a11",
        "licence": "CC-BY 4.0 (Microsoft, Azure Public Dataset; Splitwise, ISCA 2024)",
        "bands": 10,
    },
    "azure2023_code": {
        "source": "https://github.com/Azure/AzurePublicDataset @ b469a11",
        "licence": "CC-BY 4.0 (Microsoft, Azure Public Dataset; Splitwise, ISCA 2024)",
        "bands": 1,
    },
    "mooncake_fast25_conversation": {
        "source": "https://github.com/kvcache-ai/Mooncake @ 3b5a594",
        "licence": "Apache-2.0",
        "bands": 1,
    },
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Requests in order of arrival."""

    at_s: Floats
    prompt_tokens: Floats
    output_tokens: Floats

    @property
    def gaps_s(self) -> Floats:
        return np.diff(self.at_s)


def read(path: Path) -> Sample:
    """A trace file with the columns t_ms, isl and osl."""
    from pyarrow import parquet  # type: ignore[import-untyped]  # untyped  # noqa: PLC0415  # a light import loads no pyarrow

    columns = parquet.read_table(path, columns=["t_ms", "isl", "osl"])
    at_s, prompt, output = (
        np.asarray(columns[name].to_numpy(), dtype=np.float64) for name in ("t_ms", "isl", "osl")
    )
    order = np.argsort(at_s, kind="stable")
    return Sample(at_s[order] / 1000.0, prompt[order], output[order])


def generated(model: TrafficModel, count: int, seed: int) -> Sample:
    """As many arrivals as asked for, from an empty start."""
    arrivals = list(islice(Traffic(model, seed), count))
    return Sample(
        np.cumsum([arrival.gap_s for arrival in arrivals]),
        np.array([arrival.prompt_tokens for arrival in arrivals], dtype=np.float64),
        np.array([arrival.output_tokens for arrival in arrivals], dtype=np.float64),
    )


def fit(name: str, sample: Sample, bands: int) -> TrafficModel:
    """The parameters of one trace; a trace whose stamps come in ticks is fitted as batches."""
    gaps = sample.gaps_s
    batch = None
    if np.mean(gaps == 0) > 0.5:
        ticks, sizes = np.unique(sample.at_s, return_counts=True)
        gaps, batch = np.diff(ticks), knots(sizes.astype(np.float64), 1.0)
    edges = np.argsort(sample.prompt_tokens, kind="stable")
    model = TrafficModel(
        name=name,
        gap_s=knots(gaps, RESOLUTION_S),
        memories=(),
        batch=batch,
        prompt_tokens=knots(sample.prompt_tokens, 1.0),
        output_tokens=tuple(
            knots(sample.output_tokens[part], 1.0) for part in np.array_split(edges, bands)
        ),
    )
    return model if batch is not None else _with_memories(model, sample)


def knots(values: Floats, floor: float) -> Quantiles:
    """At most KNOTS knots, each set where the table so far is worst in rank or in the mean."""
    ordered = np.sort(np.maximum(values, floor))
    shares = np.arange(len(ordered)) / (len(ordered) - 1)
    chosen = [0, len(ordered) - 1]
    while len(chosen) < KNOTS:
        worst = max(_misfit(ordered, shares, left, right) for left, right in pairwise(chosen))
        if worst[0] <= 0:
            break
        chosen = sorted({*chosen, worst[1]})
    return Quantiles(
        tuple(round(float(shares[index]), 6) for index in chosen),
        tuple(round(float(ordered[index]), 4) for index in chosen),
    )


def _misfit(ordered: Floats, shares: Floats, left: int, right: int) -> tuple[float, int]:
    """How wrong the straight piece between two knots is, and where to break it."""
    if right - left < 2 or ordered[left] == ordered[right]:
        return 0.0, left
    inside = slice(left, right + 1)
    logs = np.log(ordered[inside])
    straight = np.interp(shares[inside], shares[[left, right]], logs[[0, -1]])
    ranks = np.interp(logs, straight, shares[inside])
    in_rank = np.abs(ranks - shares[inside])
    in_mean = abs(float(np.sum(np.exp(straight) - ordered[inside]))) / float(ordered.sum())
    worst = left + int(np.argmax(in_rank))
    if in_mean > in_rank.max() or not left < worst < right:
        worst = left + int(np.argmax(np.abs(np.exp(straight) - ordered[inside])))
    worst = min(max(worst, left + 1), right - 1)
    return max(float(in_rank.max()), in_mean), worst


def _with_memories(model: TrafficModel, sample: Sample) -> TrafficModel:
    """The memories under which the generated counts are as bursty as the real ones."""
    goal = np.log([burstiness(sample, window_s) for window_s in WINDOWS_S])
    draws = _Draws(model.gap_s, len(sample.at_s), goal)
    best = min(product(_COARSE, repeat=len(_MEMORIES)), key=draws.misfit)
    for factor in (1.5, 1.2, 1.1):
        near = [sorted({share / factor, share, share * factor}) for share in best]
        best = min(product(*near), key=draws.misfit)
    kept = zip(best, _MEMORIES, strict=True)
    return replace(
        model,
        memories=tuple(Memory(round(share, 4), events) for share, events in kept if share > 0),
    )


class _Draws:
    """The same random paths for every option, so that options differ only by their parameters."""

    def __init__(self, gap_s: Quantiles, count: int, goal: Floats) -> None:
        rng = np.random.default_rng(7)
        self._scores = np.linspace(-5.0, 5.0, 2001)
        shares = [NormalDist().cdf(score) for score in self._scores]
        self._log_gaps = np.interp(shares, gap_s.shares, np.log(gap_s.values))
        self._goal = goal
        self._noise = [rng.standard_normal(count) for _ in SEEDS]
        self._paths = [[_path(rng, count, events) for events in _MEMORIES] for _ in SEEDS]

    def misfit(self, shares: Sequence[float]) -> float:
        """Squared distance of the logarithms of the dispersions; endless if ranks overflow."""
        if sum(shares) > 1:
            return float("inf")
        found = np.zeros(len(WINDOWS_S))
        for noise, paths in zip(self._noise, self._paths, strict=True):
            score = np.sqrt(1.0 - sum(shares)) * noise
            for share, path in zip(shares, paths, strict=True):
                score = score + np.sqrt(share) * path
            at_s = np.cumsum(np.exp(np.interp(score, self._scores, self._log_gaps)))
            found += [_dispersion(at_s, window_s) for window_s in WINDOWS_S]
        return float(np.sum((np.log(found / len(SEEDS)) - self._goal) ** 2))


def _path(rng: np.random.Generator, count: int, arrivals: float) -> Floats:
    """A first-order memory of unit variance."""
    kept = float(np.exp(-1.0 / arrivals))
    fresh = rng.standard_normal(count) * np.sqrt(1.0 - kept * kept)
    path = np.empty(count)
    state = float(rng.standard_normal())
    for index, step in enumerate(fresh.tolist()):
        state = kept * state + step
        path[index] = state
    return path


def burstiness(sample: Sample, window_s: float) -> float:
    """Index of dispersion of counts: variance over mean per window; 1 for a Poisson stream."""
    return _dispersion(sample.at_s - sample.at_s[0], window_s)


def _dispersion(at_s: Floats, window_s: float) -> float:
    whole = max(int(at_s[-1] / window_s), 1)
    counts = np.bincount((at_s / window_s).astype(np.int64), minlength=whole)[:whole]
    return float(counts.var() / counts.mean())


def distance(one: Floats, other: Floats) -> float:
    """Kolmogorov and Smirnov's: the widest gap between two cumulative shares."""
    points = np.union1d(one, other)
    shares = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def figures(sample: Sample) -> dict[str, float]:
    """The numbers by which a trace and what we make of it are compared."""
    found: dict[str, float] = {"requests_per_s": len(sample.at_s) / float(np.ptp(sample.at_s))}
    for name, values in _columns(sample).items():
        found[f"{name}_mean"] = float(values.mean())
        for share in (50, 95, 99):
            found[f"{name}_p{share}"] = float(np.quantile(values, share / 100))
    for window_s in WINDOWS_S:
        found[f"dispersion_{window_s:g}s"] = burstiness(sample, window_s)
    return {name: round(value, 4) for name, value in found.items()}


def _columns(sample: Sample) -> dict[str, Floats]:
    """What is compared; gaps as a clock of whole milliseconds would have them."""
    return {
        "gap_s": np.maximum(np.round(sample.gaps_s, 3), RESOLUTION_S),
        "prompt_tokens": sample.prompt_tokens,
        "output_tokens": sample.output_tokens,
    }


def goodness(model: TrafficModel, real: Sample) -> dict[str, Any]:
    """Real and generated figures (mean over the seeds) and the distances between them."""
    samples = [generated(model, len(real.at_s), seed) for seed in SEEDS]
    each = [figures(sample) for sample in samples]
    distances = {
        name: round(
            float(np.mean([distance(values, _columns(sample)[name]) for sample in samples])), 4
        )
        for name, values in _columns(real).items()
    }
    return {
        "seeds": list(SEEDS),
        "requests": len(real.at_s),
        "real": figures(real),
        "generated": {name: round(float(np.mean([f[name] for f in each])), 4) for name in each[0]},
        "distance": distances,
    }


def table(traces: Mapping[str, Mapping[str, Any]]) -> str:
    """The comparison as Markdown, one row per figure and one pair of columns per trace."""
    names = list(traces)
    lines = ["| figure | " + " | ".join(f"{n}: real | generated | error" for n in names) + " |"]
    lines.append("|---" * (1 + 3 * len(names)) + "|")
    for figure in traces[names[0]]["goodness"]["real"]:
        cells = []
        for name in names:
            found = traces[name]["goodness"]
            real, made = found["real"][figure], found["generated"][figure]
            error = f"{(made / real - 1) * 100:+.1f} %" if real else "-"
            cells.append(f"{real:g} | {made:g} | {error}")
        lines.append(f"| {figure} | " + " | ".join(cells) + " |")
    for column in ("gap_s", "prompt_tokens", "output_tokens"):
        cells = [f" | | {traces[name]['goodness']['distance'][column]:.4f}" for name in names]
        lines.append(f"| KS distance, {column} |" + " |".join(cells) + " |")
    return "\n".join(lines)


def _described(model: TrafficModel, real: Sample) -> dict[str, Any]:
    about = SOURCES[model.name]
    return {
        "source": about["source"],
        "licence": about["licence"],
        "requests": len(real.at_s),
        "gap_s": _knots(model.gap_s),
        "memories": [[memory.share, memory.arrivals] for memory in model.memories],
        "batch": _knots(model.batch) if model.batch else None,
        "prompt_tokens": _knots(model.prompt_tokens),
        "output_tokens": [_knots(band) for band in model.output_tokens],
        "goodness": goodness(model, real),
    }


def _knots(quantiles: Quantiles) -> dict[str, list[float]]:
    return {"shares": list(quantiles.shares), "values": list(quantiles.values)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit every trace of a directory and write the parameters."""
    parser = argparse.ArgumentParser(description="Fit the demo's traffic to real traces.")
    parser.add_argument("--traces", type=Path, required=True, help="directory with the .parquet")
    parser.add_argument("--out", type=Path, default=PARAMETERS, help="where the parameters go")
    chosen = parser.parse_args(arguments)
    traces = {}
    for name, about in SOURCES.items():
        real = read(chosen.traces / f"{name}.parquet")
        traces[name] = _described(fit(name, real, int(about["bands"])), real)
    chosen.out.write_text(json.dumps({"version": 1, "traces": traces}, indent=1) + "\n")
    print(table(traces))  # noqa: T201  # a script that talks to a person


if __name__ == "__main__":
    main()
