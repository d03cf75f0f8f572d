"""`stagewatch slo`: are the objectives right, do scenarios hold, how do the promises stand."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from domain.errors import ConfigError, StagewatchError
from stagewatch import objectives_command
from stagewatch.backtest_command import add_actions, run_backtest, run_plan
from stagewatch.reset_command import add_action, run_reset

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `slo` and its actions to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "slo", help="objectives: validate files, run scenarios, show how promises stand"
    )
    actions = parser.add_subparsers(dest="slo_action", required=True, metavar="ACTION")
    objectives_command.add_actions(actions)
    test = actions.add_parser("test", help="run scenario files; 1 if an expectation fails")
    test.add_argument("files", nargs="+", type=Path, metavar="FILE")
    status = actions.add_parser("status", help="how every promise stands; 1 if one pages")
    status.add_argument(
        "--data-dir",
        type=Path,
        default=Path(os.environ.get("STAGEWATCH_STORE__DATA_DIR", "stagewatch-data")),
        metavar="DIR",
        help="where the state of the alerts lies (default: %(default)s)",
    )
    status.add_argument(
        "--format", choices=("table", "json"), default="table", help="default: %(default)s"
    )
    add_action(actions)
    add_actions(actions)
    parser.set_defaults(run=run)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """0 fine, 1 the check found a problem."""
    actions = {
        "validate": objectives_command.run_validate,
        "schema": objectives_command.run_schema,
        "import": objectives_command.run_import,
        "export": objectives_command.run_export,
        "test": _test,
        "status": _status,
        "reset": run_reset,
        "backtest": run_backtest,
        "plan": run_plan,
    }
    try:
        return actions[arguments.slo_action](arguments)
    except StagewatchError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command speaks
        return 1


def _test(arguments: argparse.Namespace) -> int:
    from alerts.replay import check  # noqa: PLC0415
    from alerts.scenario import load_scenario  # noqa: PLC0415

    failed = total = unread = 0
    for path in arguments.files:
        try:
            scenario = load_scenario(path)
        except ConfigError as error:
            print(error, file=sys.stderr)  # noqa: T201 - a command speaks
            unread += 1
            continue
        for each in check(scenario):
            print(f"{path}: {each.line}")  # noqa: T201
            failed += not each.kept
            total += 1
    print(f"{total - failed} of {total} expectations hold")  # noqa: T201
    if unread:
        print(f"{unread} of {len(arguments.files)} files cannot be read")  # noqa: T201
    return 1 if failed or unread else 0


def _status(arguments: argparse.Namespace) -> int:
    from alerts.api import standing_json  # noqa: PLC0415
    from alerts.ledger import StandingState  # noqa: PLC0415
    from alerts.sql_ledger import SqlLedger  # noqa: PLC0415
    from alerts.tables import open_state  # noqa: PLC0415

    path = arguments.data_dir / "alerts.db"
    if not path.exists():
        raise ConfigError(
            "holds no state of alerts",
            where=str(arguments.data_dir),
            remedy="Give --data-dir, or start `stagewatch up` with objectives first.",
        )
    standings = SqlLedger(open_state(f"sqlite:///{path}")).standings(spark_s=0)
    if arguments.format == "json":
        print(json.dumps({"slos": [standing_json(each) for each in standings]}))  # noqa: T201
    else:
        for each in standings:
            remaining = each.budget.remaining_low
            left = "no traffic" if remaining is None else f"{float(remaining) * 100:.3g} % left"
            print(f"{each.state.value:<12} {each.id}: budget {left}. {each.message}")  # noqa: T201
    return 1 if any(each.state is StandingState.PAGE for each in standings) else 0
