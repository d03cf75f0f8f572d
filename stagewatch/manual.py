"""What `--help` says besides the options: examples, how a command ends, what it reads outside."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["MANUAL", "Entry", "add_manual", "leaves"]

_ANSWERED = "0 answered; 2 wrong use, or no server answers."
_DONE = "0 done; 1 the server refused it, or does not answer; 2 wrong use."
_RUNS = "0 ended by Ctrl-C; 2 the configuration is wrong, or a port is taken."
_SETTINGS = "every setting, as in STAGEWATCH_STORE__DATA_DIR (see the reference of settings)"
_SERVER = "STAGEWATCH_URL the server; STAGEWATCH_TOKEN a token of it"
_STORE = "STAGEWATCH_STORE__DATA_DIR the default of --data-dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One command's: commands to copy, its exit codes, and variables of the environment."""

    examples: tuple[str, ...]
    ends: str
    environment: str = ""

    @property
    def text(self) -> str:
        lines = [
            "examples:",
            *(f"  {each}" for each in self.examples),
            "",
            f"exit code: {self.ends}",
        ]
        return "\n".join([*lines, *([f"environment: {self.environment}"] * bool(self.environment))])


MANUAL: Final[Mapping[str, Entry]] = {
    "alerts": Entry(
        examples=("stagewatch alerts --config stagewatch.yaml",),
        ends=_RUNS,
        environment=_SETTINGS,
    ),
    "demo": Entry(
        examples=("stagewatch demo", "stagewatch demo --incident queue --incident-after 30"),
        ends=_RUNS,
        environment="STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT and other settings of `up`",
    ),
    "up": Entry(
        examples=("stagewatch up", "stagewatch up --config stagewatch.yaml --port 8400"),
        ends=_RUNS,
        environment=_SETTINGS,
    ),
    "collector": Entry(
        examples=("stagewatch collector --config stagewatch.yaml",),
        ends=_RUNS,
        environment=_SETTINGS,
    ),
    "dashboard": Entry(
        examples=("stagewatch dashboard --config stagewatch.yaml",),
        ends=_RUNS,
        environment=_SETTINGS,
    ),
    "alerts preview": Entry(
        examples=(
            "stagewatch alerts preview on-call --config stagewatch.yaml",
            "stagewatch alerts preview on-call --config stagewatch.yaml --event resolved",
        ),
        ends="0 printed; 2 there is no such receiver.",
    ),
    "alerts test-receiver": Entry(
        examples=("stagewatch alerts test-receiver on-call --config stagewatch.yaml",),
        ends="0 it arrived; 1 it did not; 2 there is no such receiver.",
    ),
    "alerts deliveries": Entry(
        examples=("stagewatch alerts deliveries --data-dir stagewatch-data",),
        ends="0 printed; 2 wrong use, or there is no state.",
    ),
    "alerts list": Entry(
        examples=("stagewatch alerts list", "stagewatch alerts list --format json"),
        ends=_DONE,
        environment=_SERVER,
    ),
    "alerts ack": Entry(
        examples=("stagewatch alerts ack chat-ttft-page-1772352060 --note draining --for 2h",),
        ends=_DONE,
        environment=_SERVER,
    ),
    "alerts unack": Entry(
        examples=("stagewatch alerts unack chat-ttft-page-1772352060",),
        ends=_DONE,
        environment=_SERVER,
    ),
    "alerts silence": Entry(
        examples=(
            "stagewatch alerts silence service=chat 'replica=~gpu-0.*' --preview",
            "stagewatch alerts silence service=chat --for 2h --reason 'new drivers'",
        ),
        ends=_DONE,
        environment=_SERVER,
    ),
    "alerts silences": Entry(
        examples=("stagewatch alerts silences",), ends=_DONE, environment=_SERVER
    ),
    "alerts unsilence": Entry(
        examples=("stagewatch alerts unsilence 7f0c1d2e3a4b5c6d",), ends=_DONE, environment=_SERVER
    ),
    "check-config": Entry(
        examples=("stagewatch check-config stagewatch.yaml",),
        ends="0 it is right; 1 it is not, and the line says where.",
        environment="what the file names, as in ${PAGERDUTY_KEY}",
    ),
    "completion": Entry(
        examples=(
            'eval "$(stagewatch completion bash)"',
            "stagewatch completion zsh > ~/.zfunc/_stagewatch",
            "stagewatch completion fish > ~/.config/fish/completions/stagewatch.fish",
        ),
        ends="0 printed.",
    ),
    "diagnose": Entry(
        examples=(
            "stagewatch diagnose --service chat",
            "stagewatch diagnose --service chat --at 2026-11-29T18:20:00Z --format json",
        ),
        ends="0 nothing is wrong; 1 something is; 2 wrong use.",
        environment=_SERVER,
    ),
    "exporter engine": Entry(
        examples=(
            "stagewatch exporter engine --target http://engine:8000 --service chat --once",
            "stagewatch exporter engine --config stagewatch.yaml",
        ),
        ends="0 ended by Ctrl-C, or read once; 1 a target could not be read (--once); 2 wrong use.",
        environment=_SETTINGS,
    ),
    "exporter gpu": Entry(
        examples=("stagewatch exporter gpu --once", "stagewatch exporter gpu"),
        ends="0 ended by Ctrl-C, or read once; 1 there is no GPU to read (--once); 2 wrong use.",
        environment=_SETTINGS,
    ),
    "exporter cloudwatch": Entry(
        examples=(
            "stagewatch exporter cloudwatch --config stagewatch.yaml --plan",
            "stagewatch exporter cloudwatch --config stagewatch.yaml",
        ),
        ends="0 ended by Ctrl-C, or asked once; 1 something was not answered (--once); 2 wrong use.",
        environment=f"{_SETTINGS}; what AWS's tools read",
    ),
    "exporter probe": Entry(
        examples=(
            "stagewatch exporter probe --config stagewatch.yaml --once",
            "stagewatch exporter probe --config stagewatch.yaml",
        ),
        ends="0 ended by Ctrl-C, or all answered (--once); 1 one did not (--once); 2 wrong use.",
        environment=_SETTINGS,
    ),
    "import": Entry(
        examples=(
            "stagewatch import spans.bin client.jsonl --data-dir study",
            "stagewatch import pages/1.prom pages/2.prom --service chat",
        ),
        ends="0 everything was taken whole; 1 something was not; 2 wrong use.",
    ),
    "probe ladder": Entry(
        examples=("stagewatch probe ladder --target http://engine:8000/v1 --model llama",),
        ends="0 done; 1 cut short, or objectives kept at no step; 2 wrong use.",
    ),
    "query quantile": Entry(
        examples=(
            "stagewatch query quantile --metric ttft --q 0.5,0.99 --by replica --from now-1h",
            "stagewatch query quantile --metric itl --where service=code --step 1m --format csv",
        ),
        ends=_ANSWERED,
        environment=_SERVER,
    ),
    "query stages": Entry(
        examples=("stagewatch query stages --by service,role --from now-1h",),
        ends=_ANSWERED,
        environment=_SERVER,
    ),
    "query requests": Entry(
        examples=("stagewatch query requests --slowest-by ttft --limit 20 --from now-1h",),
        ends=_ANSWERED,
        environment=_SERVER,
    ),
    "query conditions": Entry(
        examples=("stagewatch query conditions",), ends=_ANSWERED, environment=_SERVER
    ),
    "query gpus": Entry(examples=("stagewatch query gpus",), ends=_ANSWERED, environment=_SERVER),
    "review": Entry(
        examples=(
            "stagewatch review --from now-7d --to now --gpu-price H100=2.10 --out monday.html",
        ),
        ends="0 keep or move; 1 infeasible, or no recommendation; 2 wrong use.",
        environment=_STORE,
    ),
    "review show": Entry(
        examples=("stagewatch review show",), ends="0 printed; 2 there is none.", environment=_STORE
    ),
    "review decide": Entry(
        examples=(
            "stagewatch review decide 20261130-0123456789 --not-done --why 'launch' --author ada",
        ),
        ends="0 kept; 2 wrong use.",
        environment=_STORE,
    ),
    "rules export": Entry(
        examples=(
            "stagewatch rules export slo.yaml --out rules/",
            "stagewatch rules export slo.yaml --out rules/ --pages-url https://stagewatch.example",
        ),
        ends="0 written; 1 something in the objectives is wrong; 2 wrong use.",
    ),
    "slo validate": Entry(
        examples=("stagewatch slo validate slo.yaml",),
        ends="0 they are right; 1 one is not, and the line says where.",
    ),
    "slo schema": Entry(
        examples=("stagewatch slo schema > objectives.schema.json",), ends="0 printed."
    ),
    "slo import": Entry(
        examples=("stagewatch slo import openslo.yaml --from openslo > slo.yaml",),
        ends="0 all was taken over; 1 something was not, and stands on stderr.",
    ),
    "slo export": Entry(
        examples=("stagewatch slo export slo.yaml --to openslo > openslo.yaml",),
        ends="0 all could be said; 1 something could not, and stands on stderr.",
    ),
    "slo test": Entry(
        examples=("stagewatch slo test outage.yaml",),
        ends="0 what was expected holds; 1 something does not.",
    ),
    "slo status": Entry(
        examples=("stagewatch slo status", "stagewatch slo status --format json"),
        ends="0 no promise pages; 1 one does.",
        environment=_STORE,
    ),
    "slo reset": Entry(
        examples=("stagewatch slo reset chat-ttft --reason 'the load test of Tuesday'",),
        ends="0 written down; 1 there is no such promise, or no state.",
        environment=_STORE,
    ),
    "slo backtest": Entry(
        examples=("stagewatch slo backtest slo.yaml --from now-7d",),
        ends="0 done; 1 something in the objectives is wrong.",
        environment=_STORE,
    ),
    "slo plan": Entry(
        examples=("stagewatch slo plan slo.yaml --from now-7d",),
        ends="0 done; 1 something in the objectives is wrong.",
        environment=_STORE,
    ),
}
"""By the words of the command."""


class _Format(argparse.HelpFormatter):
    """Wraps descriptions, and leaves what has lines of its own."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "\n".join(indent + line for line in text.splitlines())


def leaves(
    parser: argparse.ArgumentParser, *words: str
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that runs something, by its words."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no door
    if words and not any(each.required for each in below):
        yield " ".join(words), parser
    for each in below:
        for name, command in each.choices.items():
            yield from leaves(command, *words, name)


def add_manual(parser: argparse.ArgumentParser) -> None:
    """Writes each command's entry below its options."""
    for name, command in leaves(parser):
        if name in MANUAL:
            parts = [command.epilog, MANUAL[name].text]
            command.epilog = "\n\n".join(part for part in parts if part)
            command.formatter_class = _Format
