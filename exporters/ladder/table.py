"""A measurement as rows: CSV for a spreadsheet, aligned text for a terminal."""

import csv
import io
from collections.abc import Sequence

from exporters.ladder.figure_text import dollars, duration, number, share
from exporters.ladder.figures import LATENCIES, StepFigures
from exporters.ladder.measurement import Measurement, money
from exporters.ladder.rank import QUANTILES
from exporters.ladder.words import caveats, findings

__all__ = ["as_csv", "as_text"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(measurement: Measurement) -> str:
    """One row a step, seconds and plain numbers; an empty field is not measured."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    quantiles = [(metric, q) for metric in LATENCIES for q in QUANTILES]
    rows.writerow(
        [
            *("model", "shape", "loop", "concurrency", "rate_hz", "requests", "failed", "good"),
            *("requests_hz", "tokens_hz", "goodput_hz", "prompt_tokens", "output_tokens"),
            *(f"{metric}_{q}_s{end}" for metric, q in quantiles for end in ("", "_low", "_high")),
            *("usd_per_10000_output_tokens", "usd_per_10000_tokens", "usd_per_1000_good"),
            *("believed", "stopped"),
        ]
    )
    for step in measurement.steps:
        rows.writerow(_row(measurement, step, quantiles))
    return out.getvalue()


def _row(
    measurement: Measurement, step: StepFigures, quantiles: Sequence[tuple[str, str]]
) -> list[object]:
    spreads = [step.latency(metric, q) for metric, q in quantiles]
    cost = money(step, measurement.plan.price)
    return [
        *(_plain(measurement.model), step.step.shape.name),
        *("open" if step.step.is_open else "closed", step.step.concurrency, step.step.rate_hz),
        *(step.requests, step.failures.total(), step.good),
        *(step.figure(name).median for name in ("requests_hz", "tokens_hz", "goodput_hz")),
        *(step.figure(name).median for name in ("prompt_tokens", "output_tokens")),
        *(value for each in spreads for value in (each.median, each.low, each.high)),
        *(cost.per_10_000_output_tokens, cost.per_10_000_tokens, cost.per_1_000_good),
        *(step.is_believed, _plain(step.stopped)),
    ]


def _plain(text: str) -> str:
    """No text from outside becomes a formula in a spreadsheet."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_text(measurement: Measurement) -> str:
    """What a person reads at the end of a run: sentences, a table, and what to mind."""
    lines: list[str] = []
    sentences = findings(measurement)
    for climb in measurement.climbs:
        shape = climb.shape
        lines += [f"{shape.name}: {shape.prompt_tokens} tokens in, {shape.output_tokens} out"]
        lines += [f"  {sentence}" for sentence in sentences[shape.name]]
        lines += ["", *_aligned(_table(measurement, climb.steps)), ""]
    said = caveats(measurement)
    if said:
        lines += ["To mind:", *(f"  - {each}" for each in said), ""]
    return "\n".join(lines)


def _table(measurement: Measurement, steps: Sequence[StepFigures]) -> list[list[str]]:
    """Medians over the runs; TTFT and E2E of an open loop count from when a request was due."""
    head = ["step", "n", "failed", "TTFT p50", "p95", "p99", "ITL p50", "p99", "E2E p50", "p99"]
    head += ["tokens/s", "req/s"]
    head += ["good", "good/s"] if measurement.goal is not None else []
    head += ["$/10k out"] if measurement.plan.price.is_known else []
    return [head, *(_cells(measurement, step) for step in steps)]


def _cells(measurement: Measurement, step: StepFigures) -> list[str]:
    since = "_intended" if step.step.is_open else ""
    shown = [(f"ttft{since}", q) for q in QUANTILES]
    shown += [("itl", "p50"), ("itl", "p99"), (f"e2e{since}", "p50"), (f"e2e{since}", "p99")]
    load = step.step.name.removeprefix(f"{step.step.shape.name} ")
    cells = [load + ("" if step.is_believed else " !"), str(step.requests)]
    cells += [str(step.failures.total())]
    cells += [duration(step.latency(metric, q).median) for metric, q in shown]
    cells += [number(step.figure("tokens_hz").median), number(step.figure("requests_hz").median)]
    if measurement.goal is not None:
        cells += [share(step.good or 0, step.requests), number(step.figure("goodput_hz").median)]
    if measurement.plan.price.is_known:
        cells += [dollars(money(step, measurement.plan.price).per_10_000_output_tokens)]
    return cells


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
