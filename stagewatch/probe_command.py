"""`stagewatch probe ladder`: a load test, its knee, and what an endpoint's answers cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError, InputError

if TYPE_CHECKING:
    from exporters.ladder.measurement import Measurement

__all__ = ["add_parser", "run"]

_KINDS = ("openai-chat", "openai-completions", "bedrock", "sagemaker")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `probe` and what it can do to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "probe", help="load-test an endpoint from outside"
    )
    actions = parser.add_subparsers(dest="probe_action", required=True, metavar="ACTION")
    ladder = actions.add_parser(
        "ladder",
        help="more and more requests at a time: the knee, goodput, what tokens cost",
        description="Climbs a ladder of concurrency and says where more of it stops helping.",
    )
    for add in (_add_target, _add_load, _add_judgement, _add_guards, _add_output):
        add(ladder)
    parser.set_defaults(run=run)
    return parser


def _add_target(ladder: argparse.ArgumentParser) -> None:
    group = ladder.add_argument_group("whom to ask")
    group.add_argument("--target", required=True, metavar="URL", help="a host, …/v1, or all of it")
    group.add_argument("--model", metavar="NAME", help="default: the only one that is served")
    group.add_argument("--kind", choices=_KINDS, default=_KINDS[0], help="default: %(default)s")
    group.add_argument("--region", metavar="NAME", help="of an AWS kind")
    group.add_argument(
        "--api-key-env", metavar="VARIABLE", help="the environment variable with the bearer token"
    )
    group.add_argument("--ca-file", type=Path, metavar="FILE", help="certificates (PEM) to trust")
    group.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="of one request (default 120)"
    )


def _add_load(ladder: argparse.ArgumentParser) -> None:
    group = ladder.add_argument_group("what to ask")
    group.add_argument(
        "--concurrency",
        default="1,4,8,16,32,64",
        metavar="N,…",
        help="requests at a time of the closed loop (default %(default)s)",
    )
    group.add_argument(
        "--prompts",
        default="short,long",
        metavar="NAME,…",
        help="short (128 tokens), long (2048) or NAME=TOKENS (default %(default)s)",
    )
    group.add_argument(
        "--output-tokens", type=int, default=128, metavar="N", help="of an answer (default 128)"
    )
    group.add_argument(
        "--loop",
        choices=("closed", "open", "both"),
        default="both",
        help="workers back to back, Poisson arrivals, or both (default)",
    )
    group.add_argument(
        "--rate",
        metavar="R,…",
        help="requests/s of the open loop (default: 50, 80 and 95 %% of the best of the closed)",
    )
    group.add_argument("--runs", type=int, default=3, help="of each step (default 3)")
    group.add_argument(
        "--requests", type=int, default=100, help="judged in a run, at least (default 100)"
    )
    group.add_argument(
        "--shared-prefix", action="store_true", help="let a prefix cache help; default: defeat it"
    )
    group.add_argument("--stop-at-eos", action="store_true", help="do not ask to ignore the end")
    group.add_argument("--seed", default="1", help="the same prompts and arrivals (default 1)")


def _add_judgement(ladder: argparse.ArgumentParser) -> None:
    group = ladder.add_argument_group("how to judge it")
    group.add_argument(
        "--objective",
        action="append",
        default=[],
        metavar="PHRASE",
        help="'ttft<=1s', 'itl_p99<=100ms', 'p99 e2e<=8s'; voice, chat, code, writing; repeatable",
    )
    group.add_argument(
        "--target-share", metavar="SHARE", help="of requests that must keep them (default 99%%)"
    )
    group.add_argument("--for-rate", metavar="R,…", help="requests/s to say the need of")
    group.add_argument("--price-per-hour", type=float, metavar="USD", help="of the endpoint")
    group.add_argument("--price-input", type=float, metavar="USD", help="a million tokens in")
    group.add_argument("--price-output", type=float, metavar="USD", help="a million tokens out")


def _add_guards(ladder: argparse.ArgumentParser) -> None:
    group = ladder.add_argument_group("when to stop")
    group.add_argument("--dry-run", action="store_true", help="say what would be done, and end")
    group.add_argument("--yes", action="store_true", help="a target elsewhere: do not ask first")
    group.add_argument("--max-requests", type=int, metavar="N", help="in all")
    group.add_argument("--max-spend", type=float, metavar="USD", help="in all, by token prices")
    group.add_argument(
        "--max-errors", type=float, default=10.0, metavar="%", help="of a run (default 10)"
    )
    group.add_argument(
        "--run-seconds", type=float, default=120.0, metavar="S", help="of a run (default 120)"
    )
    group.add_argument(
        "--max-in-flight", type=int, default=256, metavar="N", help="open loop (default 256)"
    )


def _add_output(ladder: argparse.ArgumentParser) -> None:
    group = ladder.add_argument_group("where results go")
    group.add_argument(
        "--out",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a report by its ending: .html, .json or .csv; repeatable",
    )
    group.add_argument(
        "--format",
        choices=("text", "json", "csv"),
        default="text",
        help="on standard output (default: %(default)s)",
    )
    group.add_argument("--endpoint", metavar="URL", help="a collector's OTLP/HTTP address")
    group.add_argument("--token-env", metavar="VARIABLE", help="with the collector's token")
    group.add_argument("--service", metavar="NAME", help="service there (default: the host)")


def run(arguments: argparse.Namespace) -> int:
    """0 done, 1 cut short or no step keeps the objectives."""
    from exporters.ladder import output  # noqa: PLC0415 - `--help` must not pay for any of it
    from exporters.ladder import run as ladder  # noqa: PLC0415
    from exporters.ladder.announcement import announcement, is_loopback  # noqa: PLC0415
    from stagewatch.ladder_order import delivery_of, order_of  # noqa: PLC0415

    for path in arguments.out:
        output.check(path)
    delivery, order = delivery_of(arguments), order_of(arguments)
    if arguments.dry_run:
        print(announcement(order), end="")  # noqa: T201 - the answer to a person
        return 0
    if not is_loopback(order.target.address) and not arguments.yes:
        _ask_first(announcement(order))
    try:
        measured = ladder.run(order, delivery)
    except InputError as error:  # the endpoint does not answer: what was asked, and found wanting
        print(f"stagewatch: {error}", file=sys.stderr)  # noqa: T201
        return 1
    for path in arguments.out:
        output.write(measured, path)
    print(_as(arguments.format)(measured), end="")  # noqa: T201
    return _status(measured)


def _as(form: str) -> Callable[[Measurement], str]:
    from exporters.ladder.output import as_json  # noqa: PLC0415
    from exporters.ladder.table import as_csv, as_text  # noqa: PLC0415

    return {"text": as_text, "json": as_json, "csv": as_csv}[form]


def _status(measured: Measurement) -> int:
    cut_short = bool(measured.ended) or any(step.stopped for step in measured.steps)
    kept_nowhere = measured.goal is not None and not all(
        climb.kept_to is not None for climb in measured.climbs if climb.closed
    )
    return 1 if cut_short or kept_nowhere else 0


def _ask_first(said: str) -> None:
    """Nobody's server is loaded by accident."""
    print(said, end="", file=sys.stderr)  # noqa: T201
    if sys.stdin.isatty():
        print("Send all that? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise ConfigError(
        "that is not this machine, and nothing was sent",
        where="probe ladder",
        remedy="Look at the plan above; `--yes` sends it.",
    )
