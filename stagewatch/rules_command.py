"""`stagewatch rules export`: objectives as rule files for a Prometheus that is there already."""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError, StagewatchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alerts.prometheus_rules import Source

__all__ = ["add_parser", "run"]

_NAME = "stagewatch-slo.rules.yml"
_MOST_PAGE_BYTES = 64 * 1024 * 1024


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `rules export` to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "rules", help="objectives as recording and alerting rules for Prometheus"
    )
    actions = parser.add_subparsers(dest="rules_action", required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write a rule file, and say what it cannot say")
    export.add_argument("files", nargs="+", type=Path, metavar="FILE", help="objectives")
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="made if missing")
    export.add_argument(
        "--native", action="store_true", help="native histograms instead of classic buckets"
    )
    export.add_argument(
        "--histogram",
        action="append",
        default=[],
        metavar="LATENCY=NAME",
        help="an engine's own histogram, as in ttft=vllm:time_to_first_token_seconds; "
        "without it what our sidecars show",
    )
    export.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="a saved /metrics page, to read the edges of those histograms from",
    )
    export.add_argument(
        "--pages-url",
        default="",
        metavar="URL",
        help="where Stagewatch's pages are: alerts whose promise has no runbook link to theirs",
    )
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """0: the file is written; 1: something in the objectives is wrong."""
    try:
        return _export(arguments)
    except StagewatchError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command speaks
        return 1


def _export(arguments: argparse.Namespace) -> int:
    import yaml  # noqa: PLC0415 - `--help` must not pay for it

    from alerts.definition import load  # noqa: PLC0415
    from alerts.prometheus_rules import export  # noqa: PLC0415

    definitions = [each for path in arguments.files for each in load(path)]
    exported = export(definitions, _source(arguments), pages_url=arguments.pages_url)
    path = arguments.out / _NAME
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(exported.document, sort_keys=False, width=100, allow_unicode=True)
        path.write_text(
            f"# Made by `stagewatch rules export`; change the objectives, not this.\n{text}"
        )
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", where=str(path), remedy="Choose another --out."
        ) from error
    for loss in exported.losses:
        print(f"note: {loss}", file=sys.stderr)  # noqa: T201
    rules = sum(len(group["rules"]) for group in exported.document["groups"])
    print(f"{path}: {rules} rules of {len(definitions)} objectives")  # noqa: T201
    return 0


def _source(arguments: argparse.Namespace) -> Source:
    from alerts.prometheus_rules import Histogram, Source, sidecar_source  # noqa: PLC0415
    from exporters.engine.own_page import LE_S  # noqa: PLC0415

    if not arguments.histogram:
        return sidecar_source(LE_S, native=arguments.native)
    named = _named(arguments.histogram)
    edges = {} if arguments.native else _edges(arguments.page, list(named.values()))
    return Source(
        histograms={
            latency: Histogram(name=name, edges_s=None if arguments.native else edges[name])
            for latency, name in named.items()
        }
    )


def _named(pairs: Sequence[str]) -> dict[str, str]:
    from alerts.phrase import suggestion  # noqa: PLC0415
    from domain.metric import LATENCIES  # noqa: PLC0415

    found = {}
    for pair in pairs:
        latency, separator, name = pair.partition("=")
        if latency not in LATENCIES or not separator or not name:
            raise ConfigError(
                f"{pair!r} names no histogram",
                where="--histogram",
                remedy=f"Write ttft=NAME. {suggestion(latency, LATENCIES)}",
            )
        found[latency] = name.removesuffix("_bucket")
    return found


def _edges(page: Path | None, names: Sequence[str]) -> Mapping[str, Mapping[Fraction, str]]:
    """The edges of each histogram, as they are spelt on the page: Prometheus compares letters."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    if page is None:
        raise ConfigError(
            "the edges of a classic histogram are not known",
            where="--histogram",
            remedy="Save the engine's page (curl …/metrics > page.txt) and give --page page.txt, "
            "or use --native.",
        )
    found: dict[str, dict[Fraction, str]] = {name: {} for name in names}
    try:
        with page.open(encoding="utf-8") as file:
            text = file.read(_MOST_PAGE_BYTES)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removesuffix("_bucket")
                le = sample.labels.get("le", "+Inf")
                if name in found and name != sample.name and le not in ("+Inf", "Inf"):
                    found[name][Fraction(le)] = le
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"is no page of metrics: {error}", where=str(page), remedy="Save it again with curl."
        ) from error
    missing = [name for name, edges in found.items() if not edges]
    if missing:
        raise ConfigError(
            f"has no histogram {missing[0]!r}",
            where=str(page),
            remedy="Check its name on the page, without _bucket.",
        )
    return found
