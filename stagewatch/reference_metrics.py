"""The reference of metrics: those we keep, and those that our pages show about themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from collector.own_words import WORDS
from domain.metric import METRICS
from exporters.cloudwatch.own_page import OwnPage
from exporters.gpu.page import OWN

__all__ = ["metrics_page"]

_ROOT = Path(__file__).resolve().parent.parent
_HEAD = "| name | kind | meaning |\n|---|---|---|"

Told = tuple[str, str, str]
"""A metric's full name, its kind and its meaning."""


def metrics_page(made: str, own: str) -> str:
    """All of them; `own` is what a running process shows on `/metrics`."""
    kept = [
        f"| `{m.name}` | `{m.full_name}` | {m.kind.value} | {m.help} |" for m in METRICS.values()
    ]
    parts = [
        (
            f"# Metrics\n{made}"
            "The short name is what `query` and the API take; the long one travels as OTLP and stands "
            "on `/metrics`. A latency is a distribution and adds; a counter is summed; a level is "
            "summed over replicas; a ratio is averaged, never summed; of a maximum or minimum the extreme "
            "of all replicas counts."
        ),
        "| name | full name | kind | meaning |\n|---|---|---|---|\n" + "\n".join(kept),
        _part(
            "Answers, on the pages' /metrics",
            "For a Prometheus: [Grafana](../grafana.md). Also what `remote_write_out` writes.",
            _declared("stagewatch/summary"),
        ),
        _part(
            "Our own health, on /metrics of the pages and of the collector",
            "A counter that has counted nothing yet may be absent.",
            [*_shown(own), *_counted()],
        ),
        _part(
            "The sidecars' own health, on their /metrics",
            "Beside what they read. `listen_port` of each says where.",
            [*_declared("exporters"), *_tables()],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _part(title: str, text: str, told: list[Told]) -> str:
    kept = {metric.full_name for metric in METRICS.values()}
    rows = {name: f"| `{name}` | {kind} | {text} |" for name, kind, text in told}
    listed = "\n".join(row for name, row in sorted(rows.items()) if name not in kept)
    return f"## {title}\n{text}\n\n{_HEAD}\n{listed}"


def _declared(folder: str) -> list[Told]:
    """Every call that names one of our metrics and says what it means."""
    found: list[Told] = []
    for path in sorted((_ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                found += _told_by(node)
    return found


def _told_by(call: ast.Call) -> Iterator[Told]:
    named = {each.arg: each.value for each in call.keywords if each.arg}
    given = [*call.args[:3], *[named[key] for key in ("name", "help") if key in named]]
    texts = [one.value for one in given if isinstance(one, ast.Constant)]
    if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
        return
    name, text, *kind = map(str, texts)
    if name.startswith("stagewatch_") and " " in text:
        counts = kind == ["counter"] or name.endswith("_total")
        full_name = f"{name.removesuffix('_total')}_total" if counts else name
        yield full_name, "counter" if counts else "gauge", text


def _shown(page: str) -> Iterator[Told]:
    for family in text_string_to_metric_families(page):
        if not family.name.startswith("stagewatch_answers_"):
            suffix = "_total" if family.type == "counter" else ""
            yield family.name + suffix, family.type, family.documentation


def _counted() -> Iterator[Told]:
    for name, text in WORDS.items():
        yield name, "counter" if name.endswith("_total") else "gauge", text


def _tables() -> Iterator[Told]:
    for name, (kind, text) in OWN.items():
        yield name, kind, text
    for family in OwnPage().collect():
        suffix = "_total" if family.type == "counter" else ""
        yield family.name + suffix, family.type, family.documentation
