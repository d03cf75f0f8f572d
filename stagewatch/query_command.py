"""`stagewatch query`: quantiles, stages, requests, conditions and GPUs, from a server or from a folder."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import InputError
from domain.metric import LATENCIES
from stagewatch.query_gpus import gpu_rows, print_gpus

if TYPE_CHECKING:
    from collector.query import Reader

__all__ = ["add_parser", "asked_of", "run"]

_URL = "http://127.0.0.1:8400"
_TIMEOUT_S = 60.0
_PLACE = ("service", "replica")
_TIME = "RFC 3339, now-1h, or seconds since 1970"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `query` and what can be asked to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "query", help="quantiles, stages, requests, conditions and GPUs, as a table, JSON or CSV"
    )
    asked = parser.add_subparsers(dest="query", required=True, metavar="QUESTION")
    quantile = asked.add_parser("quantile", help="quantiles of a latency, with their doubt")
    quantile.add_argument(
        "--metric", choices=LATENCIES, default="ttft", help="default: %(default)s"
    )
    quantile.add_argument("--step", metavar="D", help="one point per step: 30s, 5m, 1h")
    stages = asked.add_parser("stages", help="where the time goes: network, queue, prefill, …")
    requests = asked.add_parser("requests", help="single requests, newest first")
    requests.add_argument("--limit", type=int, default=20, help="default: %(default)s")
    requests.add_argument(
        "--slowest-by", metavar="FIELD", help="slowest first by ttft, e2e, queue …"
    )
    for each in (quantile, stages):
        each.add_argument("--q", default="0.5,0.99", help="default: %(default)s")
        each.add_argument(
            "--by", action="append", default=[], metavar="LABEL", help="group by; repeatable"
        )
    gpus = asked.add_parser(
        "gpus", help="which GPUs answer, what holds them down, what their pools lack"
    )
    for each in (quantile, stages, requests, gpus):
        each.add_argument("--from", dest="since", default="now-1h", metavar="T", help=_TIME)
        each.add_argument("--to", dest="until", default="now", metavar="T", help="default: now")
        _add_common(each)
    conditions = asked.add_parser(
        "conditions", help="what is wrong with engines themselves: stalled, down, silent, …"
    )
    conditions.add_argument("--at", default="now", metavar="T", help=_TIME)
    _add_common(conditions)
    parser.set_defaults(run=run)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--where", action="append", default=[], metavar="K=V", help="only these; repeatable"
    )
    parser.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="default: %(default)s"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--url",
        default=os.environ.get("STAGEWATCH_URL", _URL),
        help="a running server (default: %(default)s)",
    )
    place.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="read a store, also while in use"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the answer; 0 also where there is nothing to tell."""
    answer = _offline(arguments) if arguments.data_dir else _online(arguments)
    if arguments.format == "json":
        print(json.dumps(answer, ensure_ascii=False))  # noqa: T201 - the answer
        return 0
    rows = {
        "quantile": _quantile_rows,
        "stages": _stage_rows,
        "requests": _request_rows,
        "conditions": _condition_rows,
        "gpus": gpu_rows,
    }
    found = rows[arguments.query](answer)
    if arguments.format == "csv":
        _print_csv(found)
    elif arguments.query == "conditions":
        _print_conditions(answer)
    elif arguments.query == "gpus":
        print(*print_gpus(answer), sep="\n")  # noqa: T201 - the answer
    else:
        _print_table(found)
        if arguments.query == "stages":
            _print_flows(answer)
    return 0


def _offline(arguments: argparse.Namespace) -> Any:
    from collector import answers, questions  # noqa: PLC0415 - `--help` must not pay for it
    from collector.reader import StoreReader  # noqa: PLC0415
    from collector.times import labels_asked, window  # noqa: PLC0415

    now_s = time.time()
    reader = StoreReader(arguments.data_dir)
    try:
        if arguments.query == "conditions":
            return _conditions(reader, arguments, now_s)
        if arguments.query == "gpus":
            return _gpus(reader, arguments, now_s)
        if arguments.query == "requests":
            asked = window(arguments.since, arguments.until, now_s=now_s)
            found = reader.requests(
                asked,
                where=labels_asked(arguments.where),
                limit=questions.limit(arguments.limit),
                slowest_by=arguments.slowest_by,
            )
            return answers.requests_answer(asked, found)
        wanted = questions.quantiles([arguments.q])
        selection = questions.selection(
            since=arguments.since,
            until=arguments.until,
            step=getattr(arguments, "step", None),
            where=arguments.where,
            by=arguments.by,
            now_s=now_s,
        )
        if arguments.query == "stages":
            return answers.stages_answer(reader.stages(selection), wanted)
        series = questions.checked(reader.latency(arguments.metric, selection))
        return answers.quantile_answer(arguments.metric, wanted, series)
    finally:
        reader.close()


def _conditions(reader: Reader, arguments: argparse.Namespace, now_s: float) -> Any:
    from collector.liveness_answers import conditions_answer  # noqa: PLC0415
    from collector.times import instant_s, labels_asked  # noqa: PLC0415

    at_s = int(instant_s(arguments.at, now_s=now_s, name="--at"))
    found = reader.conditions(at_s, where=labels_asked(arguments.where))
    return conditions_answer(at_s, found)


def _gpus(reader: Reader, arguments: argparse.Namespace, now_s: float) -> Any:
    from collector.gpu_answer import gpus_answer  # noqa: PLC0415
    from collector.times import labels_asked, window  # noqa: PLC0415

    asked = window(arguments.since, arguments.until, now_s=now_s)
    return gpus_answer(reader.gpus(asked, where=labels_asked(arguments.where)))


def _online(arguments: argparse.Namespace) -> Any:
    names = ("metric", "q", "where", "by", "step", "limit", "slowest_by", "at")
    asked = {name: getattr(arguments, name, None) for name in names}
    asked |= {"from": getattr(arguments, "since", None), "to": getattr(arguments, "until", None)}
    parameters = {name: value for name, value in asked.items() if value not in (None, [])}
    return asked_of(arguments.url, arguments.query, parameters)


def asked_of(server_url: str, question: str, parameters: Mapping[str, Any]) -> Any:
    """A running server's answer to one question of `/api/v1`."""
    from urllib.error import HTTPError, URLError  # noqa: PLC0415
    from urllib.parse import urlencode  # noqa: PLC0415
    from urllib.request import Request, urlopen  # noqa: PLC0415

    base = server_url.rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise InputError("is no HTTP address", where=base, remedy=f"Use --url {_URL}.")
    url = f"{base}/api/v1/{question}?{urlencode(parameters, doseq=True)}"
    try:
        request = Request(url)  # noqa: S310 - only HTTP, see above
        if token := os.environ.get("STAGEWATCH_TOKEN"):
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the same
            return json.load(answer)
    except HTTPError as error:
        raise _refused(error.read(), error.code, base) from error
    except (URLError, TimeoutError, json.JSONDecodeError) as error:
        raise InputError(
            f"no answer: {getattr(error, 'reason', error)}",
            where=base,
            remedy="Start `stagewatch up`, give its address with --url, or read a folder "
            "with --data-dir.",
        ) from error


def _refused(body: bytes, status: int, base: str) -> InputError:
    """What the server said, in its own words where it has some."""
    if status in (401, 403):
        remedy = "Set STAGEWATCH_TOKEN to a token whose role may read: auth.tokens of the server."
        return InputError(f"the server answered {status}", where=base, remedy=remedy)
    try:
        told = json.loads(body)
        return InputError(told["problem"], where=told["where"], remedy=told["remedy"])
    except (ValueError, KeyError, TypeError):
        return InputError(
            f"the server answered {status}", where=base, remedy="Is this a Stagewatch server?"
        )


Row = Mapping[str, object]


def _quantile_rows(answer: Any) -> list[Row]:
    """A line per group and step, a column per quantile."""
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for series in answer["series"]:
        q = series.get("q", answer["q"])
        for point in series["points"]:
            key = (*sorted(series["labels"].items()), point["from"])
            row = rows.setdefault(key, _place(series["labels"], point))
            row["n"] = point["n"]
            if any(each["failed"] for each in series["points"]):
                row["failed"] = point["failed"]
            row |= _said(f"p{q * 100:g}", point)
    return list(rows.values())


def _stage_rows(answer: Any) -> list[Row]:
    """A line per group and stage; a stage that nobody measured has no numbers."""
    rows: list[Row] = []
    for series in answer["series"]:
        whole = {"stage": "e2e", "share": 1.0 if series["e2e"]["n"] else None, **series["e2e"]}
        missing = [
            {"stage": name, "n": 0, "mean": None, "share": None, "quantiles": []}
            for name in series["missing"]
        ]
        for stage in [*series["stages"], whole, *missing]:
            row = _place(series["labels"], series)
            row |= {"stage": stage["stage"], "n": stage["n"]}
            row |= {"mean_s": stage["mean"], "share": stage["share"]}
            for each in stage["quantiles"]:
                row |= _said(f"p{each['q'] * 100:g}", each)
            rows.append(row)
    return rows


def _request_rows(answer: Any) -> list[Row]:
    rows: list[Row] = []
    for request in answer["requests"]:
        labels = request["labels"]
        row = {name: request[name] for name in ("end", "trace_id")}
        row |= {name: labels.get(name, "") for name in ("service", "replica")}
        row |= {name: request[name] for name in ("outcome", "ttft_s", "e2e_s", "tpot_s")}
        row |= {f"{name}_s": value_s for name, value_s in request["stages_s"].items()}
        row |= {name: request[name] for name in ("prompt_tokens", "output_tokens")}
        rows.append(row)
    return rows


def _condition_rows(answer: Any) -> list[Row]:
    rows: list[Row] = []
    for each in answer["conditions"]:
        row: dict[str, object] = {name: each["labels"].get(name, "") for name in _PLACE}
        names = ("kind", "since", "seen", "over", "stale", "running", "waiting", "sentence")
        rows.append({**row, **{name: each[name] for name in names}})
    return rows


def _print_flows(answer: Any) -> None:
    """Beside percentiles of what finished: what did not, and why a stage is missing."""
    from dashboard.quantity import at_least, counted  # noqa: PLC0415

    for series in answer["series"]:
        flow, whose = series["flow"], " ".join(series["labels"].values())
        print(  # noqa: T201
            f"\n{whose + ': ' if whose else ''}started − finished "
            f"{at_least(flow['unfinished'], flow['unfinished_high'])} (answers begun and not ended), "
            + ", ".join(
                f"{name} {counted(flow[name])}" for name in ("failed", "cancelled", "rejected")
            )
        )
        for stage, why in series["missing_because"].items():
            print(f"{stage}: not measured, {why}")  # noqa: T201


def _print_conditions(answer: Any) -> None:
    """A sentence each; what nobody reports is grey news and comes last anyway."""
    for each in answer["conditions"]:
        state = "stale" if each["stale"] else "over" if each["over"] else "now"
        print(f"{each['kind']} ({state}): {each['sentence']} Next: {each['next']}.")  # noqa: T201
    if not answer["conditions"]:
        print(f"nothing is known to be wrong with any engine at {answer['at']}")  # noqa: T201


def _place(labels: Mapping[str, str], step: Any) -> dict[str, object]:
    return {**labels, "from": step["from"], "to": step["to"]}


def _said(name: str, interval: Any) -> dict[str, object]:
    """A value and the ends of its interval; `None` is "not told", infinity "no upper end"."""
    high = float("inf") if interval.get("open") else interval["high"]
    return {
        f"{name}_s": interval["value"],
        f"{name}_low_s": interval["low"],
        f"{name}_high_s": high,
    }


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _print_csv(rows: Sequence[Row]) -> None:
    """Plain numbers; an empty field where there is none."""
    writer = csv.DictWriter(sys.stdout, _columns(rows), restval="", lineterminator="\n")
    if rows:
        writer.writeheader()
        writer.writerows(rows)


def _print_table(rows: Sequence[Row]) -> None:
    """Numbers with their unit and their doubt."""
    if not rows:
        print("no traffic")  # noqa: T201
        return
    names = [name for name in _columns(rows) if not name.endswith(("_low_s", "_high_s"))]
    # why: with one window for all, its ends need not stand in every line
    names = [n for n in names if n not in ("from", "to") or len({row.get(n) for row in rows}) > 1]
    lines = [[name.removesuffix("_s") for name in names]]
    lines += [[_cell(name, row) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())  # noqa: T201


def _cell(name: str, row: Row) -> str:
    from dashboard.quantity import NOTHING, percent, seconds, seconds_range  # noqa: PLC0415

    value = row.get(name)
    if name == "share":
        return percent(value) if isinstance(value, float) else NOTHING
    if not name.endswith("_s"):
        return NOTHING if value is None else str(value)
    if isinstance(value, float | int):
        return seconds(value)
    low, high = (row.get(name.removesuffix("_s") + end) for end in ("_low_s", "_high_s"))
    if isinstance(low, float | int) and isinstance(high, float | int):
        return seconds_range(low, high)
    return NOTHING
