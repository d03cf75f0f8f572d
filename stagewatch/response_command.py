"""`stagewatch alerts list | ack | unack | silence | silences | unsilence`, at a running server."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from domain.errors import InputError, StagewatchError, StoreError

__all__ = ["add_actions"]

_URL = "http://127.0.0.1:8400"
_TIMEOUT_S = 10.0
_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_FOR = "such as 30m, 2h or 3d"
_REMEDIES = {
    **dict.fromkeys((401, 403), "A token goes into STAGEWATCH_TOKEN."),
    **dict.fromkeys((404, 405), "`stagewatch alerts list` and `silences` say what there is."),
}


def add_actions(actions: Any) -> None:
    """Adds what people do about alerts to the actions of `stagewatch alerts`."""
    listed = _action(actions, "list", "open alerts first, then the newest", _list)
    listed.add_argument("--limit", type=int, default=20, help="default: %(default)s")
    ack = _action(actions, "ack", "take an alert on: nobody else is called", _ack)
    ack.add_argument("--for", dest="lasts", metavar="TIME", help=f"until then, {_FOR}")
    unack = _action(actions, "unack", "let go of an alert: others are called again", _unack)
    for each in (ack, unack):
        each.add_argument("id", metavar="ID", help="as `stagewatch alerts list` says it")
        each.add_argument("--note", default="", help="what is being done, or why not")
        _add_author(each)
    silence = _action(actions, "silence", "tell nobody of what matches, for a while", _silence)
    silence.add_argument(
        "matchers",
        nargs="+",
        metavar="MATCHER",
        help="service=chat, replica=~gpu-.*, zone!=a, objective=…, severity=page; all must match",
    )
    silence.add_argument("--for", dest="lasts", metavar="TIME", help=f"needed; {_FOR}, 30d at most")
    silence.add_argument("--reason", help="needed: why; others will ask")
    silence.add_argument("--preview", action="store_true", help="only say what it would match now")
    _add_author(silence)
    silences = _action(actions, "silences", "in force first, then those that are over", _silences)
    silences.add_argument("--limit", type=int, default=20, help="default: %(default)s")
    end = _action(actions, "unsilence", "end a silence before its time", _unsilence)
    end.add_argument("id", metavar="ID", help="as `stagewatch alerts silences` says it")


def _action(
    actions: Any, name: str, text: str, act: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text)
    parser.add_argument(
        "--url",
        default=os.environ.get("STAGEWATCH_URL", _URL),
        help="a running server (default: %(default)s)",
    )
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="default: %(default)s"
    )
    parser.set_defaults(act=lambda arguments: _run(act, arguments))
    return parser


def _add_author(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--author", help="who (default: you); the name of a token wins")


def _run(act: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> int:
    try:
        act(arguments)
    except StagewatchError as error:
        print(f"stagewatch: {error}", file=sys.stderr)  # noqa: T201 - the answer to a person
        return 1
    return 0


def _list(arguments: argparse.Namespace) -> None:
    answer = _ask(arguments, "GET", f"alerts?limit={arguments.limit}")
    _say(arguments, answer, [_alert_line(each) for each in answer["alerts"]], "no alerts")


def _ack(arguments: argparse.Namespace) -> None:
    asked = {"author": _author(arguments), "note": arguments.note}
    if arguments.lasts is not None:
        asked["duration_s"] = _seconds(arguments.lasts)
    answer = _ask(arguments, "POST", f"alerts/{quote(arguments.id, safe='')}/ack", asked)
    _say(arguments, answer, [_alert_line(answer)])


def _unack(arguments: argparse.Namespace) -> None:
    asked = {"author": _author(arguments), "note": arguments.note}
    answer = _ask(arguments, "POST", f"alerts/{quote(arguments.id, safe='')}/unack", asked)
    _say(arguments, answer, [_alert_line(answer)])


def _silence(arguments: argparse.Namespace) -> None:
    matched = _ask(arguments, "POST", "silences/preview", {"matchers": arguments.matchers})
    if arguments.preview:
        _say(arguments, matched, _matched_lines(matched))
        return
    for setting, value in (("--for", arguments.lasts), ("--reason", arguments.reason)):
        if not value:
            raise InputError(
                f"needs {setting}",
                where="stagewatch alerts silence",
                remedy="Give it; --preview only says what would be matched.",
            )
    asked = {
        "matchers": arguments.matchers,
        "reason": arguments.reason,
        "author": _author(arguments),
        "duration_s": _seconds(arguments.lasts),
    }
    made = _ask(arguments, "POST", "silences", asked)
    _say(arguments, {**made, "matched": matched}, [_silence_line(made), *_matched_lines(matched)])


def _silences(arguments: argparse.Namespace) -> None:
    answer = _ask(arguments, "GET", f"silences?limit={arguments.limit}")
    _say(arguments, answer, [_silence_line(each) for each in answer["silences"]], "no silences")


def _unsilence(arguments: argparse.Namespace) -> None:
    answer = _ask(arguments, "DELETE", f"silences/{quote(arguments.id, safe='')}")
    _say(arguments, answer, [_silence_line(answer)])


def _alert_line(alert: Mapping[str, Any]) -> str:
    taken = alert["acknowledged"]
    notes = [
        alert["severity"],
        f"acknowledged by {taken['by']}" if taken else "",
        f"silenced by {alert['silenced_by']}" if alert["silenced_by"] else "",
        f"fired {alert['flaps']} times in a day" if alert["flaps"] > 1 else "",
    ]
    said = ", ".join(each for each in notes if each)
    return f"{alert['state']:<9} {alert['id']} ({said}): {alert['message']}"


def _silence_line(silence: Mapping[str, Any]) -> str:
    until = silence["ended_at"] or silence["ends_at"]
    matchers = " ".join(silence["matchers"])
    return (
        f"{silence['state']:<8} {silence['id']} until {until}: {matchers} "
        f"({silence['author']}: {silence['reason']})"
    )


def _matched_lines(matched: Mapping[str, Any]) -> list[str]:
    alerts = [f"  open alert {each['id']} ({each['severity']})" for each in matched["alerts"]]
    promises = [
        f"  objective {each['id']}{'' if each['whole'] else ' (some of its alerts)'}"
        for each in matched["objectives"]
    ]
    return ["matches now:", *alerts, *promises] if alerts or promises else ["matches nothing now"]


def _say(
    arguments: argparse.Namespace, answer: Mapping[str, Any], lines: list[str], empty: str = ""
) -> None:
    text = json.dumps(answer) if arguments.format == "json" else "\n".join(lines or [empty])
    print(text)  # noqa: T201 - a command speaks


def _author(arguments: argparse.Namespace) -> str:
    if arguments.author:
        return str(arguments.author)
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        return f"user {os.getuid()}"


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})\s*(s|m|min|h|d)", text.strip())
    if found is None or not int(found[1]):
        raise InputError(f"{text!r} is no time", where="--for", remedy=f"Write one {_FOR}.")
    return int(found[1]) * _UNITS_S[found[2]]


def _ask(
    arguments: argparse.Namespace, method: str, path: str, asked: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    import httpx  # noqa: PLC0415 - `--help` must not pay for it

    headers = {"X-Stagewatch-Request": "cli"}
    if token := os.environ.get("STAGEWATCH_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    target = f"{arguments.url.rstrip('/')}/api/v1/{path}"
    try:
        answer = httpx.request(
            method, target, json=asked, headers=headers, timeout=_TIMEOUT_S, trust_env=False
        )
        said: Any = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise StoreError(
            f"gives no answer ({type(error).__name__})",
            where=arguments.url,
            remedy="Give --url, or start `stagewatch up`.",
        ) from error
    if answer.status_code >= 400:
        raise InputError(
            _detail(said),
            where=f"{method} /api/v1/{path}",
            remedy=_REMEDIES.get(answer.status_code, "`stagewatch alerts --help` says how."),
        )
    found: dict[str, Any] = said
    return found


def _detail(said: Any) -> str:
    detail = said.get("detail") if isinstance(said, dict) else None
    if isinstance(detail, list):  # why: what does not fit the model is listed, one problem each
        return "; ".join(f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in detail)
    return str(detail or "was refused")
