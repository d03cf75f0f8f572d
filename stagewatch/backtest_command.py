"""`stagewatch slo backtest` and `slo plan`: what objectives would have paged, over minutes that are past."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import InputError

if TYPE_CHECKING:
    from alerts.backtest import Backtest, Planned
    from alerts.definition import Definition
    from alerts.ledger import AlertRecord
    from domain.indicator import Indicator
    from domain.slice import Slice

__all__ = ["add_actions", "run_backtest", "run_plan"]

_LEAD_S = 3 * 86_400
"""The longest window of a rule: so much of the past decides the first minute."""

_SIGNS = {"add": "+", "change": "~", "keep": "=", "remove": "-"}
_KINDS = ("page", "ticket", "no-data")


def add_actions(actions: Any) -> None:
    """Adds `backtest` and `plan` to `slo`."""
    told = {
        "backtest": "what the objectives of a file would have paged",
        "plan": "what a file would change, and what that would have paged",
    }
    for name, text in told.items():
        action = actions.add_parser(name, help=text)
        action.add_argument("files", nargs="+", type=Path, metavar="FILE")
        action.add_argument(
            "--data-dir",
            type=Path,
            default=Path(os.environ.get("STAGEWATCH_STORE__DATA_DIR", "stagewatch-data")),
            metavar="DIR",
            help="where the past lies (default: %(default)s)",
        )
        action.add_argument(
            "--from", dest="since", default="now-7d", metavar="T", help="default: %(default)s"
        )
        action.add_argument("--to", dest="until", default="now", metavar="T", help="default: now")
        action.add_argument(
            "--format", choices=("table", "json"), default="table", help="default: %(default)s"
        )


def run_backtest(arguments: argparse.Namespace) -> int:
    """0: what was asked has been said; a backtest is no check."""
    from alerts.backtest import backtest  # noqa: PLC0415 - `--help` must not pay for it

    since_s, until_s = _window(arguments)
    with _past(arguments.data_dir, since_s, until_s) as minutes:
        found = []
        for definition in _wanted(arguments.files):
            _progress(f"{definition.name}: reading its minutes")
            slices = minutes(definition.objective.indicator)
            found.append(backtest(definition, slices, since_s=since_s))
    if arguments.format == "json":
        print(json.dumps({"backtests": [backtest_json(each) for each in found]}))  # noqa: T201
    else:
        for each in found:
            print("\n".join(_told(each)))  # noqa: T201
    return 0


def run_plan(arguments: argparse.Namespace) -> int:
    """0: what was asked has been said."""
    from alerts.backtest import plan  # noqa: PLC0415
    from alerts.past import in_force  # noqa: PLC0415

    since_s, until_s = _window(arguments)
    with _past(arguments.data_dir, since_s, until_s) as minutes:
        state = _state(arguments.data_dir)
        promised = in_force(state) if state is not None else {}
        _progress(f"{len(promised)} promises are in force; their past is judged again")
        found = plan(_wanted(arguments.files), promised, minutes, since_s=since_s)
    if arguments.format == "json":
        print(json.dumps({"plan": [_planned_json(each) for each in found]}))  # noqa: T201
    else:
        print("\n".join(_plan_table(found, since_s, until_s)))  # noqa: T201
    return 0


def backtest_json(found: Backtest) -> dict[str, Any]:
    """One backtest; shares are 0 to 1, low and high equal where the source is exact."""
    from alerts.api import alert_json  # noqa: PLC0415

    budget = found.standing.budget
    return {
        "id": found.definition.id,
        "from": _rfc3339(found.since_s),
        "to": _rfc3339(found.until_s),
        "pages": found.count("page"),
        "tickets": found.count("ticket"),
        "no_data": found.count("no-data"),
        "total": found.counted.total,
        "bad_low": found.counted.bad_low,
        "bad_high": found.counted.bad_high,
        "minutes": found.counted.minutes,
        "observed_minutes": found.counted.observed_minutes,
        "budget_remaining_low": _share(budget.remaining_low),
        "budget_remaining_high": _share(budget.remaining_high),
        "alerts": [alert_json(each) for each in found.alerts],
    }


def _planned_json(planned: Planned) -> dict[str, Any]:
    return {
        "id": planned.id,
        "verb": planned.verb.value,
        "before": backtest_json(planned.before) if planned.before else None,
        "after": backtest_json(planned.after) if planned.after else None,
    }


def _told(found: Backtest) -> Iterator[str]:
    counted = found.counted
    yield (
        f"{found.definition.id}: {_many(found.count('page'), 'page')}, "
        f"{_many(found.count('ticket'), 'ticket')} from {_clock(found.since_s)} to "
        f"{_clock(found.until_s)}"
    )
    for alert in found.alerts:
        kind = alert.kind if alert.kind == "no-data" else alert.severity.value
        end = "still open" if alert.resolved_at_s is None else _clock(alert.resolved_at_s)
        yield f"  {kind:<8}{_clock(alert.started_at_s)} to {end}: {_first_word(alert)}"
    unseen = counted.minutes - counted.observed_minutes
    bad = (
        f"{counted.bad_low}"
        if counted.bad_low == counted.bad_high
        else f"{counted.bad_low} to {counted.bad_high}"
    )
    yield f"  {bad} of {counted.total} bad; {_left(found)}; {unseen} of {counted.minutes} minutes not observed"


def _plan_table(found: Sequence[Planned], since_s: int, until_s: int) -> Iterator[str]:
    yield f"What would change, and what it would have done from {_clock(since_s)} to {_clock(until_s)}:"
    width = max((len(each.id) for each in found), default=0)
    for each in found:
        counts = ", ".join(_change(each, kind) for kind in _KINDS)
        yield f"{_SIGNS[each.verb]} {each.id:<{width}}  {counts}  {_what(each)}".rstrip()
        yield from (f"    {line}" for line in _new_alerts(each))
    if not found:
        yield "nothing: no promise in the file, and none in force"


def _change(planned: Planned, kind: str) -> str:
    before = planned.before.count(kind) if planned.before else None
    after = planned.after.count(kind) if planned.after else None
    word = kind if kind == "no-data" else f"{kind}s"
    if before is None or after is None or before == after:
        return f"{word} {after if before is None else before}"
    return f"{word} {before} → {after}"


def _what(planned: Planned) -> str:
    from alerts.sentence import sentence  # noqa: PLC0415

    before, after = (
        sentence(each.definition.objective) if each else ""
        for each in (planned.before, planned.after)
    )
    match planned.verb.value:
        case "add":
            return f"new: {after}"
        case "remove":
            return f"ends: {before}"
        case "change" if before != after:
            return f"{before} becomes {after}"
        case "change":
            return "how it is watched changes"
        case _:
            return ""


def _new_alerts(planned: Planned) -> Iterator[str]:
    """What the file would have added; alerts of one tier that begin within a minute are the same."""
    if planned.after is None or planned.verb.value == "keep":
        return
    known = {
        (each.severity, each.kind, each.started_at_s // 60)
        for each in (planned.before.alerts if planned.before else ())
    }
    for each in planned.after.alerts:
        if (each.severity, each.kind, each.started_at_s // 60) not in known:
            kind = each.kind if each.kind == "no-data" else each.severity.value
            yield f"+ {kind} {_clock(each.started_at_s)}: {_first_word(each)}"


def _first_word(alert: AlertRecord) -> str:
    """What it said when it began."""
    return alert.history[0].text if alert.history else alert.message


def _wanted(files: Sequence[Path]) -> list[Definition]:
    from alerts.definition import load  # noqa: PLC0415

    return [definition for path in files for definition in load(path)]


def _window(arguments: argparse.Namespace) -> tuple[int, int]:
    from collector.times import instant_s  # noqa: PLC0415

    now_s = time.time()
    since_s = int(instant_s(arguments.since, now_s=now_s, name="--from")) // 60 * 60
    until_s = int(min(instant_s(arguments.until, now_s=now_s, name="--to"), now_s)) // 60 * 60
    if until_s <= since_s:
        raise InputError(
            "the window ends before it begins",
            where="--from and --to",
            remedy="Give --from now-7d, or an instant before --to.",
        )
    return since_s, until_s


@contextmanager
def _past(
    data_dir: Path, since_s: int, until_s: int
) -> Iterator[Callable[[Indicator], Sequence[Slice]]]:
    from alerts.past import past_minutes  # noqa: PLC0415
    from collector.query import Window  # noqa: PLC0415
    from collector.reader import StoreReader  # noqa: PLC0415

    state = _state(data_dir)
    reader = StoreReader(data_dir)
    window = Window(since_s=max(since_s - _LEAD_S, 0), until_s=until_s)
    known: dict[Indicator, Sequence[Slice]] = {}

    def minutes(indicator: Indicator) -> Sequence[Slice]:
        if indicator not in known:
            known[indicator] = past_minutes(reader, state, indicator, window)
        return known[indicator]

    try:
        yield minutes
    finally:
        reader.close()
        if state is not None:
            state.dispose()


def _state(data_dir: Path) -> Any:
    """The state of alerts where there is one: its minutes go further back than the store's."""
    from alerts.tables import open_state  # noqa: PLC0415

    path = data_dir / "alerts.db"
    return open_state(f"sqlite:///{path}") if path.exists() else None


def _progress(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - what takes long says where it is


def _left(found: Backtest) -> str:
    low, high = found.standing.budget.remaining_low, found.standing.budget.remaining_high
    if low is None or high is None:
        return "no traffic, so no budget"
    if high < 0:
        return f"the budget is spent {float(1 - high):.3g} times over"
    if low == high:
        return f"{float(low) * 100:.3g} % of the budget left"
    return f"{float(low) * 100:.3g} to {float(high) * 100:.3g} % of the budget left"


def _share(value: Any) -> float | None:
    return None if value is None else float(value)


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _clock(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M} UTC"


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
