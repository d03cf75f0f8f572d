"""`stagewatch review`: should workers move between prefill and decode, and what became of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import InputError

if TYPE_CHECKING:
    from review.money import Price
    from review.shelf import Kept, Shelf
    from stagewatch.config import Config

__all__ = ["add_parser", "run"]

_SUFFIXES = (".html", ".md", ".json")
_NEEDED = ("--from", "--to")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds `review` to the sub-commands of `stagewatch`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "review", help="should workers move between prefill and decode? once a week"
    )
    parser.add_argument("--from", dest="since", metavar="T", help="RFC 3339, now-7d, epoch seconds")
    parser.add_argument("--to", dest="until", metavar="T", help="likewise")
    parser.add_argument("--service", metavar="S", help="which; needed where there are several")
    place = parser.add_mutually_exclusive_group()
    _data_dir(place)
    place.add_argument(
        "--file", type=Path, metavar="FILE", help="a table of requests: .csv, .jsonl, .parquet"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the report: .html, .md or .json")
    parser.add_argument(
        "--gpu-price",
        action="append",
        default=[],
        metavar="[GPU=]PRICE",
        help="of one worker for one hour; goes before `prices`; repeatable",
    )
    for name, what in (("ttft", "first token"), ("tpot", "token after it")):
        parser.add_argument(f"--{name}", type=float, metavar="SECONDS", help=f"promised: {what}")
    parser.add_argument("--target", type=float, metavar="SHARE", help="who has it; default 0.99")
    _config(parser)
    parser.set_defaults(run=run, act=_review)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    decide = actions.add_parser("decide", help="note whether it was done, and why")
    decide.add_argument("id", metavar="ID", help="the review's name")
    said = decide.add_mutually_exclusive_group(required=True)
    said.add_argument("--done", dest="done", action="store_true", help="it was done")
    said.add_argument("--not-done", dest="done", action="store_false", help="it was not")
    decide.add_argument("--why", required=True, metavar="TEXT", help="others will ask")
    decide.add_argument("--author", required=True, metavar="NAME", help="who decided")
    shown = actions.add_parser("show", help="print a kept review, or list them all")
    shown.add_argument("id", nargs="?", metavar="ID", help="without: the list")
    shown.add_argument("--out", type=Path, metavar="FILE", help="as .html, .md or .json")
    for each, act in ((decide, _decide), (shown, _show)):
        _data_dir(each)
        _config(each)
        each.set_defaults(act=act)
    return parser


def _data_dir(parser: Any) -> None:
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where the data lie (default: the file's)"
    )


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file")


def run(arguments: argparse.Namespace) -> int:
    """0: keep or move; 1: infeasible, or no recommendation."""
    act: Callable[[argparse.Namespace], int] = arguments.act
    return act(arguments)


def _review(arguments: argparse.Namespace) -> int:
    from review.verdict import VerdictKind  # noqa: PLC0415 - `--help` must not pay for it

    _check(arguments)
    config, now_s = _configured(arguments), time.time()
    kept = _reviewed(arguments, config, now_s)
    if arguments.out is not None:
        _write(arguments.out, kept)
    else:
        _say(_written(kept, ".md"), end="")
    _hint(f"{kept.review.verdict.says}. Kept as {kept.id}.")
    advises = kept.review.verdict.kind in (VerdictKind.DO_NOTHING, VerdictKind.MOVE)
    return 0 if advises else 1


def _check(arguments: argparse.Namespace) -> None:
    """What would be found out only after minutes of replays."""
    needed = [] if arguments.file else [arguments.since, arguments.until]
    if any(each is None for each in needed):
        raise InputError(
            "it has no beginning or no end",
            where="stagewatch review",
            remedy=f"Give {' and '.join(_NEEDED)}, such as --from now-7d --to now; or --file.",
        )
    _known_suffix(arguments.out)


def _known_suffix(path: Path | None) -> None:
    if path is not None and path.suffix not in _SUFFIXES:
        raise InputError(
            f"{path.suffix or 'no suffix'!r} is no kind of report",
            where=f"--out {path}",
            remedy=f"Use one of {', '.join(_SUFFIXES)}.",
        )


def _configured(arguments: argparse.Namespace) -> Config:
    """The file's, with what the command line says of the promise."""
    from pydantic import ValidationError  # noqa: PLC0415 - `--help` must not pay for it

    from review.settings import PromiseSettings  # noqa: PLC0415
    from stagewatch.config import load  # noqa: PLC0415
    from stagewatch.up import configured  # noqa: PLC0415

    config = configured(load(arguments.config), arguments.data_dir, None)
    asked = {
        name: value
        for name in ("ttft", "tpot", "target")
        if (value := vars(arguments).get(name)) is not None
    }
    if not asked:
        return config
    told = config.review.promise.model_dump() if config.review.promise else {}
    told |= {name if name == "target" else f"{name}_s": value for name, value in asked.items()}
    try:
        promise = PromiseSettings(**told)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"that is no promise: {first['loc'][0]}: {first['msg']}",
            where="--ttft, --tpot, --target",
            remedy="Give both times in seconds, and the share between 0 and 1.",
        ) from error
    settings = config.review.model_copy(update={"promise": promise})
    return config.model_copy(update={"review": settings})


def _reviewed(arguments: argparse.Namespace, config: Config, now_s: float) -> Kept:
    from review.compiled import INTERPRETED  # noqa: PLC0415 - `--help` must not pay for it
    from stagewatch.review_question import price_of  # noqa: PLC0415

    prices = [price_of(each) for each in arguments.gpu_price]
    if INTERPRETED:
        _hint(
            "the extra [review] is not installed, so only the busiest stretches are replayed."
            " Run: pip install 'stagewatch[review]'."
        )
    if arguments.file:
        return _of_file(arguments, config, now_s, prices)
    from collector.times import window  # noqa: PLC0415
    from stagewatch.reviewing import review_of_store  # noqa: PLC0415

    return review_of_store(
        config,
        window(arguments.since, arguments.until, now_s=now_s),
        service=arguments.service,
        now_s=now_s,
        prices=prices,
        progress=_progress,
    )


def _of_file(
    arguments: argparse.Namespace, config: Config, now_s: float, prices: list[Price]
) -> Kept:
    from dataclasses import replace  # noqa: PLC0415 - with the rest

    from review.files import period_of_file  # noqa: PLC0415 - `--help` must not pay for it
    from review.weekly import review  # noqa: PLC0415
    from stagewatch.review_question import question_of  # noqa: PLC0415
    from stagewatch.reviewing import shelf_of  # noqa: PLC0415

    if arguments.since or arguments.until:
        raise InputError(
            "a file is reviewed as a whole",
            where="--from, --to",
            remedy="Leave them out, or leave rows out of the file.",
        )
    if not arguments.file.is_file():
        raise InputError(
            "there is no such file", where=str(arguments.file), remedy="Check the path."
        )
    period, service = period_of_file(arguments.file), arguments.service or ""
    question = question_of(config, period, service=service, at_s=now_s, prices=prices)
    shelf = shelf_of(config)
    last = shelf.advice(service, before_s=period.since_s + period.length_s)
    return shelf.keep(review(period, replace(question, last=last), _progress))


def _decide(arguments: argparse.Namespace) -> int:
    from review.shelf import Decision  # noqa: PLC0415 - `--help` must not pay for it

    said = Decision(
        done=arguments.done, why=arguments.why, author=arguments.author, at_s=time.time()
    )
    if _shelf(_configured(arguments)).decide(arguments.id, said) is None:
        raise _unknown(arguments.id)
    _say(f"{arguments.id}: {'done' if said.done else 'not done'}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    _known_suffix(arguments.out)
    config = _configured(arguments)
    shelf = _shelf(config)
    if arguments.id is None:
        for each in shelf.all():
            _say(f"{each.id}  {each.review.service or '-'}  {each.review.verdict.says}")
        for said in (*shelf.damaged(), *_scheduled(config)):
            _hint(said)
        return 0
    kept = shelf.one(arguments.id)
    if kept is None:
        raise _unknown(arguments.id)
    if arguments.out is None:
        _say(_written(kept, ".md"), end="")
    else:
        _write(arguments.out, kept)
    return 0


def _scheduled(config: Config) -> Iterator[str]:
    """What runs, what failed, and when the next one is due."""
    from review.wording import hour  # noqa: PLC0415 - `--help` must not pay for it

    standing = _shelf(config).timetable.read()
    if standing is not None and standing.says():
        yield standing.says()
    cron = config.review.schedule
    if cron is not None and (next_s := cron.after(time.time())) is not None:
        yield f"the next scheduled review is due {hour(next_s)}"


def _unknown(review_id: str) -> InputError:
    return InputError(
        f"there is no review {review_id[:80]!r}",
        where="stagewatch review",
        remedy="`stagewatch review show` lists them.",
    )


def _shelf(config: Config) -> Shelf:
    from review.shelf import Shelf  # noqa: PLC0415 - `--help` must not pay for it

    return Shelf(config.store.data_dir / "reviews")


def _written(kept: Kept, suffix: str) -> str:
    from review.html_page import html_page  # noqa: PLC0415 - `--help` must not pay for it
    from review.markdown import markdown  # noqa: PLC0415
    from review.report import report  # noqa: PLC0415
    from review.review_value import to_json  # noqa: PLC0415

    if suffix == ".json":
        return to_json(kept.review, indent=1) + "\n"
    return {".html": html_page, ".md": markdown}[suffix](report(kept))


def _write(path: Path, kept: Kept) -> None:
    try:
        path.write_text(_written(kept, path.suffix), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"it cannot be written: {error}", where=f"--out {path}", remedy="Check the path."
        ) from error


def _progress(done: int, of: int, what: str) -> None:
    if what:
        _hint(f"{done} of {of}: {what}")


def _hint(text: str) -> None:
    print(f"stagewatch: {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress for a person


def _say(text: str, *, end: str = "\n") -> None:
    print(text, end=end)  # noqa: T201 - the answer
