"""`stagewatch alerts preview | test-receiver | deliveries`: what receivers get, and whether they do."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import ConfigError

if TYPE_CHECKING:
    from alerts.delivery_log import Sent
    from alerts.receivers.settings import ReceiverSettings
    from stagewatch.config import Config

__all__ = ["add_actions"]

_EVENTS = (
    *("firing", "resolved", "stale", "no-data", "condition"),
    *("acknowledged", "escalated", "renotified", "note", "test"),
)


def add_actions(actions: Any) -> None:
    """Adds the three to the actions of `stagewatch alerts`."""
    preview = actions.add_parser("preview", help="print what a receiver would be sent")
    preview.add_argument("name", metavar="NAME", help="the receiver's name")
    preview.add_argument("--event", choices=_EVENTS, default="firing", help="default: %(default)s")
    preview.add_argument(
        "--objective", metavar="NAME", help="with the labels, runbook and summary of this promise"
    )
    preview.set_defaults(act=_preview)
    test = actions.add_parser("test-receiver", help="send a real test; 1 if it does not arrive")
    test.add_argument("name", metavar="NAME", help="the receiver's name")
    test.set_defaults(act=_test)
    deliveries = actions.add_parser("deliveries", help="what was sent to whom, and what came of it")
    deliveries.add_argument("--receiver", metavar="NAME", help="only this one's")
    deliveries.add_argument("--alert", metavar="ID", help="only those of this alert")
    deliveries.add_argument("--limit", type=int, default=50, help="default: %(default)s")
    deliveries.add_argument(
        "--format", choices=("table", "json"), default="table", help="default: %(default)s"
    )
    deliveries.set_defaults(act=_deliveries)
    for each in (preview, test, deliveries):
        # why no default: what stands before the action must not be undone by it
        each.add_argument(
            "--config", type=Path, metavar="FILE", help="a YAML file", default=argparse.SUPPRESS
        )
    deliveries.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where the data lie", default=argparse.SUPPRESS
    )


def _preview(arguments: argparse.Namespace) -> int:
    from alerts.receivers.preview import preview  # noqa: PLC0415 - `--help` must not pay for it

    config = _config(arguments)
    body = _sample(config, arguments.event, arguments.objective)
    settings = _receiver(config, arguments.name)
    _say(preview(settings, body, now_s=time.time()).rstrip("\n"))
    if body["severity"] not in settings.severities:
        _warn(f"{settings.name} is not told of a {body['severity']}: see its severities.")
    return 0


def _test(arguments: argparse.Namespace) -> int:
    from alerts.trial import trial  # noqa: PLC0415 - the same

    config = _config(arguments)
    settings = _receiver(config, arguments.name)
    found = trial(settings, _sample(config, "test", None), clock=time.time)
    for attempt in found:
        _say(f"{settings.name}: {attempt.event} {attempt.outcome} ({attempt.detail}), "
             f"{attempt.took_s * 1000:.0f} ms")  # fmt: skip
    return 0 if all(attempt.arrived for attempt in found) else 1


def _deliveries(arguments: argparse.Namespace) -> int:
    from alerts.delivery_log import deliveries, sent_json  # noqa: PLC0415 - the same
    from alerts.tables import open_state  # noqa: PLC0415 - the same

    config = _config(arguments)
    data_dir = arguments.data_dir or config.store.data_dir
    path = data_dir / "alerts.db"
    if config.alerting.state_url is None and not path.exists():
        raise ConfigError(
            "holds no state of alerts",
            where=str(data_dir),
            remedy="Give --data-dir, or start `stagewatch up` with objectives first.",
        )
    state = open_state(config.alerting.state_location(data_dir))
    found = deliveries(
        state, receiver=arguments.receiver, alert_id=arguments.alert, limit=arguments.limit
    )
    if arguments.format == "json":
        _say(json.dumps({"deliveries": [sent_json(each) for each in found]}))
    else:
        for each in found:
            _say(_line(each))
    return 0


def _line(each: Sent) -> str:
    at = datetime.fromtimestamp(each.created_at_s, UTC)
    tried = f"{each.attempts} attempt{'' if each.attempts == 1 else 's'}"
    last = each.tries[-1].detail if each.tries else "not tried yet"
    return (
        f"{at:%Y-%m-%d %H:%M:%S} UTC  {each.receiver:<16} {each.outcome:<9} "
        f"{each.event:<12} {each.alert_id} ({tried}; {last})"
    )


def _config(arguments: argparse.Namespace) -> Config:
    from stagewatch.config import load  # noqa: PLC0415 - the same

    return load(arguments.config)


def _receiver(config: Config, name: str) -> ReceiverSettings:
    names = [each.name for each in config.receivers]
    if name not in names:
        raise ConfigError(
            f"there is no receiver {name!r}",
            where="receivers",
            remedy=f"There are: {', '.join(names)}." if names else "Give --config FILE with some.",
        )
    return config.receivers[names.index(name)]


def _sample(config: Config, event: str, objective: str | None) -> dict[str, Any]:
    from alerts.definition import gather  # noqa: PLC0415 - the same
    from alerts.receivers.preview import of_promise  # noqa: PLC0415 - the same
    from alerts.receivers.samples import sample  # noqa: PLC0415 - the same

    body = sample(event, link=config.alerts.public_url)
    if objective is None:
        return body
    definitions = {each.name: each for each in gather(config.objectives)}
    if objective not in definitions:
        raise ConfigError(
            f"there is no objective {objective!r}",
            where="objectives",
            remedy=f"There are: {', '.join(definitions) or 'none'}.",
        )
    chosen = definitions[objective]
    return of_promise(
        body,
        name=chosen.name,
        labels=dict(chosen.labels),
        runbook=chosen.objective.runbook,
        summary=chosen.summary,
    )


def _say(text: str) -> None:
    print(text)  # noqa: T201 - a command speaks


def _warn(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - a command speaks
