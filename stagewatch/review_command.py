"""`stagewatch review`: should workers move between prefill and decode, and what became of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import InputError

if TYPE_CHECKING:
    from review.period import Period
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
    from dataclasses import replace  # noqa: PLC0415 - with the rest

    from review.compiled import INTERPRETED  # noqa: PLC0415 - `--help` must not pay for it
    from review.weekly import review  # noqa: PLC0415
    from stagewatch.review_question import price_of, question_of  # noqa: PLC0415

    prices = [price_of(each) for each in arguments.gpu_price]
    period, service, causes = (
        _of_file(arguments) if arguments.file else _of_store(arguments, config, now_s)
    )
    question = question_of(
        config, period, service=service, at_s=now_s, prices=prices, causes=causes
    )
    shelf = _shelf(config)
    last = shelf.advice(service, before_s=period.since_s + period.length_s)
    if INTERPRETED:
        _hint(
            "the extra [review] is not installed, so only the busiest stretches are replayed."
            " Run: pip install 'stagewatch[review]'."
        )
    return shelf.keep(review(period, replace(question, last=last), _progress))


def _of_file(arguments: argparse.Namespace) -> tuple[Period, str, list[str]]:
    from review.files import period_of_file  # noqa: PLC0415 - `--help` must not pay for it

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
    return period_of_file(arguments.file), arguments.service or "", []


def _of_store(
    arguments: argparse.Namespace, config: Config, now_s: float
) -> tuple[Period, str, list[str]]:
    from collector.reader import StoreReader  # noqa: PLC0415 - `--help` must not pay for it
    from collector.times import window  # noqa: PLC0415
    from domain.labels import labels_of  # noqa: PLC0415
    from review.reading import read_period  # noqa: PLC0415
    from stagewatch.review_question import open_causes, service_in  # noqa: PLC0415

    asked = window(arguments.since, arguments.until, now_s=now_s)
    reader = StoreReader(config.store.data_dir)
    try:
        service = service_in(reader, arguments.service, asked)
        period = read_period(reader, asked, where=labels_of({"service": service}))
        if not len(period):
            raise InputError(
                f"no requests of {service!r} are kept from {arguments.since} to {arguments.until}",
                where="review",
                remedy="Check the period; single requests are kept for retention.requests_s.",
            )
        return period, service, open_causes(reader, config, service, asked.until_s)
    finally:
        reader.close()


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
    shelf = _shelf(_configured(arguments))
    if arguments.id is None:
        for each in shelf.all():
            _say(f"{each.id}  {each.review.service or '-'}  {each.review.verdict.says}")
        return 0
    kept = shelf.one(arguments.id)
    if kept is None:
        raise _unknown(arguments.id)
    if arguments.out is None:
        _say(_written(kept, ".md"), end="")
    else:
        _write(arguments.out, kept)
    return 0


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
