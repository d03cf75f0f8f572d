"""Tables of requests as load clients write them (.jsonl, .csv, .parquet), row by row as client spans.

Ids that a table does not have are made from the row's own content, so a second import of the same
file brings the same spans, which the collector already has.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.legs import SPAN_ID, TRACE_ID
from collector.semantics import GAPS
from domain.errors import InputError
from domain.leg import ALONE, Outcome

__all__ = ["SUFFIXES", "rows_of", "span_of", "spans_of"]

SUFFIXES: Final = (".jsonl", ".csv", ".parquet")
_SECOND_NS: Final = 1_000_000_000
_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "start": ("t_send", "start_s", "start_time", "sent_at_s"),
    "end": ("t_end", "end_s", "end_time"),
    "last_token": ("t_last_content", "t_done"),
    "ttft": ("ttft", "ttft_s", "time_to_first_token_s"),
    "e2e": ("e2e", "e2e_s", "latency_s"),
    "decode": ("decode_s",),
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "output_tokens": ("completion_tokens", "output_tokens"),
    "finish": ("finish", "finish_reason"),
    "model": ("model",),
    "streamed": ("stream", "streamed", "streaming"),
}
_CUT_OFF = 429, 500


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table, with what `usage` holds beside the rest."""
    match path.suffix:
        case ".jsonl":
            found: Iterator[dict[str, Any]] = _json_lines(path)
        case ".csv":
            found = _csv(path)
        case _:
            found = _parquet(path)
    for row in found:
        usage = row.pop("usage", None)
        yield {**row, **usage} if isinstance(usage, dict) else row


def spans_of(rows: Iterable[dict[str, Any]], *, where: str) -> Iterator[Span]:
    """One client span per row. A row without a beginning is an error that names it."""
    table = list(rows)
    says_how_it_ended = any(_first(row, "finish") is not None for row in table)
    seen = Counter[str]()
    for number, row in enumerate(table, 1):
        content = json.dumps(row, sort_keys=True, default=str)
        try:
            span = span_of(row, says_how_it_ended=says_how_it_ended)
        except ValueError as error:
            raise InputError(
                str(error),
                where=f"{where}, row {number}",
                remedy=f"Name the columns like {', '.join(n[0] for n in _NAMES.values())}.",
            ) from error
        _identify(span, row, f"{content}#{seen[content]}")
        seen[content] += 1
        yield span


def span_of(row: Mapping[str, Any], *, says_how_it_ended: bool) -> Span:
    """A row as the span that its client would have sent, ids left out."""
    start_s = _number(row, "start")
    if start_s is None:
        raise ValueError("it does not say when the request was sent")
    e2e_s, ttft_s, end_s = _number(row, "e2e"), _number(row, "ttft"), _number(row, "end")
    if e2e_s is None and end_s is not None:
        e2e_s = end_s - start_s
    gaps = _gaps(row)
    span = _span(
        start_s,
        e2e_s,
        {
            "gen_ai.response.time_to_first_chunk": ttft_s,
            "gen_ai.latency.e2e": e2e_s,
            "stagewatch.decode_s": _decode_s(row, start_s, ttft_s),
            "stagewatch.itl_max_s": max(gaps, default=None),
            "gen_ai.usage.prompt_tokens": _number(row, "prompt_tokens"),
            "gen_ai.usage.completion_tokens": _number(row, "output_tokens"),
        },
    )
    outcome = _outcome(row, says_how_it_ended=says_how_it_ended)
    for name, text in (
        ("stagewatch.outcome", outcome.value),
        ("gen_ai.response.finish_reasons", _first(row, "finish")),
        ("gen_ai.request.model", _first(row, "model")),
        ("stagewatch.streamed", _streamed(row)),
    ):
        if text:
            span.attributes.add(key=name).value.string_value = str(text)
    if gaps:
        values = span.attributes.add(key=GAPS).value.array_value.values
        values.extend(AnyValue(double_value=gap) for gap in gaps)
    return span


def _span(start_s: float, e2e_s: float | None, numbers: Mapping[str, float | None]) -> Span:
    start_at_ns = round(start_s * _SECOND_NS)
    span = Span(
        name="request",
        kind=Span.SPAN_KIND_CLIENT,
        parent_span_id=ALONE,  # why: a row knows its trace, not the span that servers stand beneath
        start_time_unix_nano=start_at_ns,
        end_time_unix_nano=start_at_ns + round(max(e2e_s or 0.0, 0.0) * _SECOND_NS),
    )
    for name, number in numbers.items():
        if number is not None:
            span.attributes.add(key=name).value.double_value = number
    return span


def _outcome(row: Mapping[str, Any], *, says_how_it_ended: bool) -> Outcome:
    """How a request ended by status, error and finish reason: a 200 without a reason was cut off."""
    told = row.get("outcome")
    if told in tuple(Outcome):
        return Outcome(told)
    if str(row.get("aborted", "")).lower() in ("true", "1"):
        return Outcome.CANCELLED
    text = row.get("status")
    status = int(float(text)) if text not in (None, "") else None
    if status is not None and 400 <= status < 500 and status not in _CUT_OFF:
        return Outcome.REJECTED
    if row.get("error") or (status is not None and status >= 400):
        return Outcome.FAILED
    if says_how_it_ended and not _first(row, "finish"):
        return Outcome.FAILED
    return Outcome.OK


def _streamed(row: Mapping[str, Any]) -> str | None:
    told = _first(row, "streamed")
    return None if told is None else str(str(told).lower() in ("true", "1")).lower()


def _decode_s(row: Mapping[str, Any], start_s: float, ttft_s: float | None) -> float | None:
    """First token to last token."""
    told_s, last_s = _number(row, "decode"), _number(row, "last_token")
    if told_s is not None or last_s is None or ttft_s is None:
        return told_s
    return max(last_s - start_s - ttft_s, 0.0)


def _identify(span: Span, row: Mapping[str, Any], content: str) -> None:
    told = str(row.get("trace_id") or "")
    digest = hashlib.blake2b(content.encode(), digest_size=TRACE_ID + SPAN_ID).digest()
    try:
        trace_id = bytes.fromhex(told)
    except ValueError:
        trace_id = b""
    span.trace_id = trace_id if len(trace_id) == TRACE_ID else digest[:TRACE_ID]
    span.span_id = digest[TRACE_ID:]


def _first(row: Mapping[str, Any], what: str) -> Any:
    for name in _NAMES[what]:
        value = row.get(name)
        if value not in (None, ""):
            return value
    return None


def _number(row: Mapping[str, Any], what: str) -> float | None:
    value = _first(row, what)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is {value!r}, which is no number") from None
    return number if math.isfinite(number) else None


def _gaps(row: Mapping[str, Any]) -> list[float]:
    # why `itl_all` first: gaps between chunks with text span the tokens that were withheld
    told = row.get("itl_all", row.get("itl"))
    if isinstance(told, str):
        told = json.loads(told) if told else None
    return [float(gap) for gap in told] if told is not None else []


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                row = error
            if not isinstance(row, dict):
                raise InputError(
                    "it is no JSON object",
                    where=f"{path}, line {number}",
                    remedy="Write one request per line.",
                )
            yield row


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    from pyarrow import (  # type: ignore[import-untyped]  # noqa: PLC0415 - large; one format needs it
        ArrowInvalid,
    )
    from pyarrow.parquet import (  # type: ignore[import-untyped]  # noqa: PLC0415
        ParquetFile,
    )

    try:
        file = ParquetFile(path)
    except ArrowInvalid as error:
        raise InputError(
            f"it is no Parquet file: {error}", where=str(path), remedy="Check the file."
        ) from error
    with file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()
