"""The `stagewatch` command."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from domain.errors import StagewatchError
from stagewatch import (
    alerts_command,
    completion_command,
    diagnose_command,
    exporter_command,
    import_command,
    probe_command,
    query_command,
    review_command,
    rules_command,
    slo_command,
)
from stagewatch.demo.incidents import INCIDENTS
from stagewatch.extras import missing
from stagewatch.manual import add_manual
from stagewatch.release import VERSION

__all__ = ["main", "parser"]

EPILOG = """start here:
  stagewatch demo                      the whole product over a simulated fleet, on this machine
  stagewatch up                        collector, alerts and pages on http://127.0.0.1:8400
  stagewatch exporter engine --target http://ENGINE:8000 --service NAME
                                       the sidecar that watches one vLLM
"""


def parser() -> argparse.ArgumentParser:
    """Every command and option, without importing what they run."""
    top = argparse.ArgumentParser(
        prog="stagewatch",
        description="Watches LLM inference for the people who are paged for it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"stagewatch {VERSION}")
    top.add_argument("--verbose", action="store_true", help="log what is done, not only what fails")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_servers(commands)
    alerts_command.add_parser(commands)
    diagnose_command.add_parser(commands)
    exporter_command.add_parser(commands)
    import_command.add_parser(commands)
    probe_command.add_parser(commands)
    query_command.add_parser(commands)
    review_command.add_parser(commands)
    rules_command.add_parser(commands)
    slo_command.add_parser(commands)
    check = commands.add_parser("check-config", help="is this configuration right?")
    check.add_argument("file", type=Path, metavar="FILE")
    completion_command.add_parser(commands)
    add_manual(top)
    return top


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser("demo", help="the whole product over a simulated fleet")
    demo.add_argument("--port", type=int, default=8400, help="pages and API (default 8400)")
    demo.add_argument(
        "--data-dir", type=Path, default=Path("stagewatch-data/demo"), help="kept between starts"
    )
    demo.add_argument("--speed", type=float, default=1.0, help="load, as a multiple of the usual")
    demo.add_argument("--trace", type=Path, metavar="FILE", help="replay a real request trace")
    demo.add_argument(
        "--incident", choices=["none", *INCIDENTS], default="none", help="a fault to watch"
    )
    demo.add_argument(
        "--incident-after", type=float, default=60.0, metavar="SECONDS", help="default 60"
    )
    demo.add_argument(
        "--webhook", metavar="URL", help="where to send the alerts (loopback is fine)"
    )
    demo.add_argument("--seed", type=int, default=1, help="the same seed invents the same traffic")
    demo.add_argument(
        "--sidecar-port",
        type=int,
        metavar="PORT",
        help="also show the sidecar's /metrics there, for a Prometheus",
    )
    demo.add_argument("--exit-after", type=float, metavar="SECONDS", help="end by itself")


def _add_servers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    servers = {
        "up": "collector, alerts and pages in one process",
        "collector": "only the collector: OTLP in, API out",
        "dashboard": "only the pages and the API",
    }
    for name, text in servers.items():
        server = commands.add_parser(name, help=text)
        server.add_argument("--config", type=Path, metavar="FILE", help="a YAML file")
        server.add_argument(
            "--data-dir", type=Path, help="where the data lie (default: the file's)"
        )
        server.add_argument("--port", type=int, help="pages and API (default 8400)")
        server.add_argument(
            "--path-prefix", metavar="PATH", help="where a reverse proxy serves them, as in /watch"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """0 fine, 1 the check found a problem, 2 wrong use."""
    chosen = parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if chosen.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    try:
        return _run(chosen)
    except StagewatchError as error:
        print(f"stagewatch: {error}", file=sys.stderr)  # noqa: T201 - the answer to a person
        return 2
    except ModuleNotFoundError as error:
        print(f"stagewatch: {missing(error, chosen.command)}", file=sys.stderr)  # noqa: T201 - the same
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 0


def _run(chosen: argparse.Namespace) -> int:
    """Each command imports what it runs, and nothing else."""
    runs: dict[str, Callable[[argparse.Namespace], int]] = {
        "alerts": alerts_command.run,
        "diagnose": diagnose_command.run,
        "exporter": exporter_command.run,
        "import": import_command.run,
        "probe": probe_command.run,
        "query": query_command.run,
        "review": review_command.run,
        "rules": rules_command.run,
        "slo": slo_command.run,
    }
    if chosen.command in runs:
        return runs[chosen.command](chosen)
    if chosen.command == "demo":
        from stagewatch.demo.command import run as demo

        return demo(chosen)
    if chosen.command == "completion":
        print(completion_command.completion(parser(), chosen.shell))  # noqa: T201 - for a shell
        return 0
    if chosen.command == "check-config":
        from stagewatch.check_config import run as check

        return check(chosen.file)
    from stagewatch.up import run as up

    return up(chosen)


if __name__ == "__main__":
    sys.exit(main())
