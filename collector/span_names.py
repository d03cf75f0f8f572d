"""What spans are, by name: one table; a new engine or instrumentation is a new row.

The first row that fits a span says which leg it is, which attributes are its numbers and labels, and
what its length stands for. A span that no row fits is nobody's request: it is ignored and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.semantics import (
    ATTRIBUTE_LABELS,
    CHAT,
    FINISH,
    NUMBERS,
    OPERATION,
    OUTCOME,
    PLACE,
    ROOM,
    STREAMED,
    text_in,
)
from domain.leg import SLICES, LegKind

__all__ = ["DECISIVE", "ROWS", "WITHIN", "SpanName", "name_of"]

_SERVER, _CLIENT, _INTERNAL = Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_INTERNAL
_UNSAID = Span.SPAN_KIND_UNSPECIFIED
_Wants = Mapping[str, frozenset[str]]
_CHAT_IF_SAID: Final[_Wants] = {OPERATION: CHAT}
_ANY: Final = frozenset[str]()
_POST: Final = frozenset(("POST",))
_OURS: Final = ("stagewatch.outcome", "stagewatch.role")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SpanName:
    """One row. `role` in the pattern of a name is the role of whoever sent it."""

    who: str
    kinds: frozenset[int]
    name: str = ""  # empty: any
    pattern: re.Pattern[str] | None = None
    needs: _Wants = field(default_factory=dict)  # has these attributes, with one of these values
    may_have: _Wants = field(default_factory=dict)  # the same, unless the attribute is absent
    has_some_of: frozenset[str] = frozenset()
    leg: LegKind | None = None  # None: a whole engine, or what its role makes of it
    numbers: Mapping[str, int] = field(default_factory=lambda: NUMBERS)
    scale: float = 1.0  # of seconds
    labels: Mapping[str, str] = field(default_factory=lambda: ATTRIBUTE_LABELS)
    replica: str = ""  # attribute that names the replica where the resource does not
    length: int | None = None  # the number that the span's own length is
    tells_outcome: bool = True  # links and slices never do
    texts: frozenset[str] = field(init=False)  # its other attributes that are read

    def __post_init__(self) -> None:
        texts = {*self.labels, *OUTCOME, *FINISH, *STREAMED, ROOM, self.replica} - {""}
        object.__setattr__(self, "texts", frozenset(texts))
        if self.leg is LegKind.LINK or self.leg in SLICES:
            object.__setattr__(self, "tells_outcome", False)

    def fits(self, name: str, kind: int, told: Mapping[str, AnyValue]) -> bool:
        """Whether a span of this name, kind and attributes is one of these."""
        return (
            kind in self.kinds
            and (not self.name or self.name == name)
            and (self.pattern is None or self.pattern.fullmatch(name) is not None)
            and all(key in told and _is_one(told[key], of) for key, of in self.needs.items())
            and all(key not in told or _is_one(told[key], of) for key, of in self.may_have.items())
            and (not self.has_some_of or not self.has_some_of.isdisjoint(told))
        )

    def role_in(self, name: str) -> str:
        """The role that the name says, if it says one."""
        found = self.pattern.fullmatch(name) if self.pattern is not None else None
        return found.groupdict(default="").get("role", "") if found else ""


def name_of(name: str, kind: int, told: Mapping[str, AnyValue]) -> SpanName | None:
    """The row that fits, or None. Who says no kind means INTERNAL, as OpenTelemetry has it."""
    kind = _INTERNAL if kind == _UNSAID else kind
    return next((row for row in _candidates(name) if row.fits(name, kind, told)), None)


def _candidates(name: str) -> Iterator[SpanName]:
    yield from _BY_NAME.get(name, ())
    yield from _OTHERS


def _is_one(value: AnyValue, of: frozenset[str]) -> bool:
    return not of or text_in(value) in of


def _slices(who: str, names: Mapping[str, LegKind]) -> Iterator[SpanName]:
    for name, leg in names.items():
        yield SpanName(
            who=who, name=name, kinds=frozenset((_INTERNAL,)), leg=leg, labels={}, numbers={}
        )


def _only(places: Mapping[str, str]) -> dict[str, int]:
    return {attribute: PLACE[column] for attribute, column in places.items()}


ROWS: Final[tuple[SpanName, ...]] = (
    SpanName(who="vLLM 0.10.2 to 0.33.0", name="llm_request", kinds=frozenset((_SERVER,))),
    SpanName(
        who="vLLM, through a pipeline that lost the kind",
        name="llm_request",
        kinds=frozenset((_INTERNAL,)),
        has_some_of=frozenset(name for name in NUMBERS if name.startswith("gen_ai.latency.")),
    ),
    SpanName(
        who="SGLang 0.5.23",
        # why a space before: the role of a unified engine is an empty word
        pattern=re.compile(r"(?:(?P<role>prefill|decode)|unified|) ?Req \S*"),
        kinds=frozenset((_INTERNAL, _SERVER)),
        needs={"rid": _ANY},
        # why not time_in_model_prefill: it holds the queue; the slices say both apart
        numbers={
            name: place
            for name, place in NUMBERS.items()
            if name not in ("gen_ai.latency.time_in_model_prefill", "gen_ai.latency.time_in_queue")
        },
    ),
    *_slices(
        "SGLang 0.5.23",
        {
            "prefill_waiting": LegKind.QUEUE_SLICE,
            "prefill_forward": LegKind.PREFILL_SLICE,
            "prefill_transfer_kv_cache": LegKind.TRANSFER_SLICE,
        },
    ),
    SpanName(
        who="SGLang 0.5.23, a thread: slices of the first rank hang on it, those of others are copies",
        pattern=re.compile(r".*\(host:\w* \| pid:\d+\)"),
        kinds=frozenset((_INTERNAL,)),
        needs={"thread_label": _ANY},
        may_have={"tp_rank": frozenset(("0",)), "pp_rank": frozenset(("0",))},
        leg=LegKind.LINK,
        numbers={},
        labels={},
    ),
    SpanName(
        who="Dynamo 1.6.1, the frontend",
        name="http-request",
        kinds=frozenset((_INTERNAL, _SERVER)),
        needs={"model": _ANY, "request_id": _ANY},
        may_have={"uri": frozenset(("/v1/chat/completions", "/v1/completions", "/v1/responses"))},
        leg=LegKind.FRONTEND,
        numbers=_only(
            {
                "ttft_ms": "ttft_s",
                "input_tokens": "prompt_tokens",
                "output_tokens": "output_tokens",
                "cached_tokens": "cached_tokens",
            }
        ),
        scale=1e-3,
        labels={**ATTRIBUTE_LABELS, "model": "model"},
    ),
    SpanName(
        who="Dynamo 1.6.1, the router: a client of its own workers, no user's",
        name="kv_router.route_request",
        kinds=frozenset((_CLIENT, _INTERNAL)),
        leg=LegKind.LINK,
        numbers={},
        labels={},
    ),
    SpanName(
        who="Dynamo 1.6.1, a prefill worker",
        name="handle_payload",
        kinds=frozenset((_SERVER,)),
        needs={"endpoint": frozenset(("generate",)), "component": frozenset(("prefill",))},
        leg=LegKind.PREFILL,
        numbers={},
        replica="instance_id",
        length=PLACE["prefill_s"],
        tells_outcome=False,  # the frontend knows; a stream that is dropped is an error here
    ),
    SpanName(
        who="Dynamo 1.6.1, a worker that decodes",
        name="handle_payload",
        kinds=frozenset((_SERVER,)),
        needs={"endpoint": frozenset(("generate",))},
        leg=LegKind.DECODE,
        numbers={},
        replica="instance_id",
        tells_outcome=False,
    ),
    SpanName(
        who="OpenTelemetry GenAI, a client; INTERNAL where the model runs in its process",
        kinds=frozenset((_CLIENT, _INTERNAL)),
        needs={OPERATION: CHAT},
        leg=LegKind.CLIENT,
    ),
    SpanName(
        who="a client that names no operation",
        kinds=frozenset((_CLIENT,)),
        may_have=_CHAT_IF_SAID,
        has_some_of=frozenset((*NUMBERS, *_OURS, "gen_ai.request.model")),
        leg=LegKind.CLIENT,
    ),
    SpanName(
        who="OpenTelemetry GenAI, a server",
        kinds=frozenset((_SERVER,)),
        may_have=_CHAT_IF_SAID,
        has_some_of=frozenset((*NUMBERS, *_OURS)),
    ),
    *(
        SpanName(
            who="HTTP between the client and the server",
            kinds=frozenset((_CLIENT, _SERVER)),
            needs={method: _POST},
            leg=LegKind.LINK,
            numbers={},
            labels={},
        )
        for method in ("http.request.method", "http.method")
    ),
)

WITHIN: Final = SpanName(
    who="a call of a gateway's own client: no user's",
    kinds=frozenset((_CLIENT, _INTERNAL)),
    leg=LegKind.LINK,
)

_BY_NAME: Final[dict[str, tuple[SpanName, ...]]] = {
    name: tuple(row for row in ROWS if row.name == name)
    for name in {row.name for row in ROWS if row.name}
}
_OTHERS: Final = tuple(row for row in ROWS if not row.name)

DECISIVE: Final = frozenset(
    key for row in ROWS for wants in (row.needs, row.may_have) for key in wants
)
"""The attributes whose value decides which row fits."""
