"""What may be asked over HTTP: `/api/v1/…`, read only, JSON in the fixed forms of `collector.answers`."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from collector import answers, questions
from collector.answers import (
    GaugeAnswer,
    LabelsAnswer,
    QuantileAnswer,
    RequestAnswer,
    RequestsAnswer,
    StagesAnswer,
)
from collector.endpoint_answer import EndpointsAnswer, endpoints_answer, settled_until_s
from collector.gpu_answer import GpusAnswer, gpus_answer
from collector.liveness_answers import (
    ConditionsAnswer,
    FreshnessAnswer,
    conditions_answer,
    freshness_answer,
)
from collector.query import Reader, Window
from collector.times import instant_s, label_names, labels_asked, window
from domain.errors import InputError, StagewatchError, StoreError
from domain.labels import LABEL_NAMES
from domain.metric import COUNTERS, GAUGES, LATENCIES

__all__ = ["router", "unknown_router"]

_Where = Annotated[
    list[str], Query(description="`label=value`, repeatable; an empty value asks for its absence")
]
_By = Annotated[list[str], Query(description="Labels to group by, repeatable or with commas")]
_Since = Annotated[
    str, Query(alias="from", description="RFC 3339, `now-1h`, or seconds since 1970")
]
_Until = Annotated[str, Query(alias="to", description="As `from`; the window ends before it")]
_Step = Annotated[str | None, Query(description="`60`, `5m`, `1h`; without it one point for all")]
_Quantiles = Annotated[list[str], Query(description="`0.99`, or several: `0.5,0.99`")]


class Problem(BaseModel):
    """What is wrong with a question, where, and what to do about it."""

    detail: str
    where: str
    problem: str
    remedy: str


_ASKED_WRONGLY: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The question cannot be answered as it stands"},
    503: {"model": Problem, "description": "The store cannot be read"},
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not known"}}


class _Told(APIRoute):
    """A route whose errors are answers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await handle(request)
            except StoreError as error:
                return _problem(error, 503)
            except StagewatchError as error:
                return _problem(error, 400)
            except RequestValidationError as error:
                first = error.errors()[0]
                name = str(first["loc"][-1])
                wrong = InputError(first["msg"], where=name, remedy="See /openapi.json.")
                return _problem(wrong, 400)

        return told


def router(reader: Reader, *, now: Callable[[], float] = time.time) -> APIRouter:
    """All read-only questions of the telemetry store."""
    api = APIRouter(prefix="/api/v1", tags=["telemetry"], route_class=_Told)
    _add_latencies(api, reader, now)
    _add_requests(api, reader, now)
    _add_rest(api, reader, now)
    _add_liveness(api, reader, now)
    _add_endpoints(api, reader, now)
    _add_gpus(api, reader, now)
    return api


def unknown_router() -> APIRouter:
    """404 JSON for every other `/api/…`; include it after all other routers."""
    api = APIRouter(include_in_schema=False)

    @api.get("/api/{rest:path}")
    def unknown(rest: str) -> Response:
        where = f"/api/{rest}"
        return _problem(InputError("no such path", where=where, remedy="See /openapi.json."), 404)

    return api


def _add_latencies(api: APIRouter, reader: Reader, now: Callable[[], float]) -> None:
    @api.get("/quantile", response_model=QuantileAnswer, responses=_ASKED_WRONGLY)
    def quantile(
        *,
        metric: Annotated[str, Query(description=", ".join(LATENCIES))] = "ttft",
        q: _Quantiles = ["0.99"],  # noqa: B006 - FastAPI copies defaults
        where: _Where = [],  # noqa: B006
        by: _By = [],  # noqa: B006
        since: _Since = "now-1h",
        until: _Until = "now",
        step: _Step = None,
    ) -> Response:
        """Quantiles of a latency, each with the interval that surely holds it."""
        wanted = questions.quantiles(q)
        asked = questions.selection(
            since=since, until=until, step=step, where=where, by=by, now_s=now()
        )
        series = questions.checked(reader.latency(metric, asked))
        return _json(answers.quantile_answer(metric, wanted, series))

    @api.get("/stages", response_model=StagesAnswer, responses=_ASKED_WRONGLY)
    def stages(
        *,
        q: _Quantiles = ["0.5,0.99"],  # noqa: B006
        where: _Where = [],  # noqa: B006
        by: _By = [],  # noqa: B006
        since: _Since = "now-1h",
        until: _Until = "now",
    ) -> Response:
        """Where requests spend their time; stages that nobody measured are named."""
        wanted = questions.quantiles(q)
        asked = questions.selection(
            since=since, until=until, step=None, where=where, by=by, now_s=now()
        )
        return _json(answers.stages_answer(reader.stages(asked), wanted))


def _add_requests(api: APIRouter, reader: Reader, now: Callable[[], float]) -> None:
    @api.get("/requests", response_model=RequestsAnswer, responses=_ASKED_WRONGLY)
    def requests(
        *,
        where: _Where = [],  # noqa: B006
        since: _Since = "now-1h",
        until: _Until = "now",
        limit: Annotated[int, Query(description=f"1 … {questions.MOST_REQUESTS}")] = 100,
        slowest_by: Annotated[
            str | None, Query(description="Slowest first by this, such as `ttft`; else newest")
        ] = None,
    ) -> Response:
        """Requests that ended in the window."""
        asked = window(since, until, now_s=now())
        found = reader.requests(
            asked,
            where=labels_asked(where),
            limit=questions.limit(limit),
            slowest_by=slowest_by,
        )
        return _json(answers.requests_answer(asked, found))

    @api.get(
        "/requests/{trace_id}", response_model=RequestAnswer, responses=_ASKED_WRONGLY | _UNKNOWN
    )
    def request(trace_id: Annotated[str, Path(description="32 hexadecimal digits")]) -> Response:
        """One request, joined from all its spans."""
        found = reader.request(questions.trace(trace_id))
        if found is None:
            gone = InputError(
                "no such request is kept",
                where=trace_id,
                remedy="Requests are kept for `retention.requests_s`.",
            )
            return _problem(gone, 404)
        return _json(answers.request_answer(found))


def _add_endpoints(api: APIRouter, reader: Reader, now: Callable[[], float]) -> None:
    @api.get("/endpoints", response_model=EndpointsAnswer, responses=_ASKED_WRONGLY)
    def endpoints(
        *,
        service: Annotated[str, Query(description="One service; without it all")] = "",
        metric: Annotated[str, Query(description="Our name or AWS's, such as `ttft`")] = "",
        since: _Since = "",
        until: _Until = "",
    ) -> Response:
        """Managed endpoints as CloudWatch tells of them; without `to`, up to what has settled."""
        now_s = now()
        asked = window(since or "now-1h", until or "now", now_s=now_s)
        found = reader.endpoints(asked, service=service, metric=metric)
        settled_s = settled_until_s(found)
        if not until and settled_s is not None:
            length_s = asked.until_s - asked.since_s if not since else settled_s - asked.since_s
            asked = Window(since_s=settled_s - max(length_s, 60), until_s=settled_s)
            found = reader.endpoints(asked, service=service, metric=metric)
        return _json(endpoints_answer(asked, found))


def _add_gpus(api: APIRouter, reader: Reader, now: Callable[[], float]) -> None:
    @api.get("/gpus", response_model=GpusAnswer, responses=_ASKED_WRONGLY)
    def gpus(
        *,
        where: _Where = [],  # noqa: B006
        since: _Since = "now-1h",
        until: _Until = "now",
    ) -> Response:
        """GPUs: which answer, what holds them down; per pool what binds and what a token costs."""
        asked = window(since, until, now_s=now())
        return _json(gpus_answer(reader.gpus(asked, where=labels_asked(where))))


def _add_rest(api: APIRouter, reader: Reader, now: Callable[[], float]) -> None:
    @api.get("/gauges", response_model=GaugeAnswer, responses=_ASKED_WRONGLY)
    def gauges(
        *,
        metric: Annotated[str, Query(description=", ".join(GAUGES + COUNTERS))],
        where: _Where = [],  # noqa: B006
        by: _By = [],  # noqa: B006
        since: _Since = "now-1h",
        until: _Until = "now",
        step: _Step = None,
    ) -> Response:
        """A gauge (mean, least, most and last), or what a counter grew by."""
        asked = questions.selection(
            since=since, until=until, step=step, where=where, by=by, now_s=now()
        )
        return _json(answers.gauge_answer(metric, reader.numbers(metric, asked)))

    @api.get("/labels", response_model=LabelsAnswer, responses=_ASKED_WRONGLY)
    def labels(
        label: Annotated[str, Query(description=", ".join(LABEL_NAMES), pattern=r"^\w+$")],
        since: _Since = "now-1h",
        until: _Until = "now",
    ) -> Response:
        """The values that a label took."""
        (name,) = label_names([label], where="label")
        values = reader.label_values(name, window(since, until, now_s=now()))
        return _json(answers.labels_answer(name, values))


def _add_liveness(api: APIRouter, reader: Reader, now: Callable[[], float]) -> None:
    @api.get("/freshness", response_model=FreshnessAnswer, responses=_ASKED_WRONGLY)
    def freshness(since: _Since = "now-15m", until: _Until = "now") -> Response:
        """How old each service's newest data are, replica by replica."""
        found = reader.freshness(window(since, until, now_s=now()))
        return _json(freshness_answer(reader.watermark_s(), found))

    @api.get("/conditions", response_model=ConditionsAnswer, responses=_ASKED_WRONGLY)
    def conditions(
        *,
        where: _Where = [],  # noqa: B006
        at: Annotated[
            str, Query(description="As `from`; of the last 15 minutes before it")
        ] = "now",
    ) -> Response:
        """What is wrong with the engines themselves: stalled, down, silent, not reporting."""
        at_s = int(instant_s(at, now_s=now(), name="at"))
        found = reader.conditions(at_s, where=labels_asked(where))
        return _json(conditions_answer(at_s, found))

    @api.get("/health", responses=_ASKED_WRONGLY)
    def health() -> dict[str, float]:
        """What the store counts of itself."""
        return dict(reader.health())


def _json(answer: Any) -> Response:
    # why not a model: thousands of points would be checked one by one; tests check the shape
    return Response(orjson.dumps(answer), media_type="application/json")


def _problem(error: StagewatchError, status: int) -> Response:
    told = {
        "detail": str(error),
        "where": error.where,
        "problem": error.problem,
        "remedy": error.remedy,
    }
    return Response(orjson.dumps(told), status_code=status, media_type="application/json")
