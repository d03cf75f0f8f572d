"""`/api/v1/diagnosis`: why a service is slow, or was at an instant."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from alerts.change import Change
from alerts.diagnosis.inquest import diagnose_asked
from alerts.diagnosis.telling import diagnosis_json
from alerts.promise import Definition
from alerts.told_changes import ToldChanges
from collector.query import Reader
from domain.errors import StagewatchError, StoreError

__all__ = ["diagnosis_router"]

_LONGEST = 256
_EARLIER_S = 3600


def diagnosis_router(
    reader: Reader,
    definitions: Sequence[Definition],
    *,
    instant: Callable[[str, float], float],
    told: ToldChanges | None = None,
    clock: Callable[[], float] = time.time,
) -> APIRouter:
    """`instant` reads a time as people type it; `told` is what others reported."""
    routes = APIRouter(prefix="/api/v1", tags=["diagnosis"])

    @routes.get("/diagnosis", response_model=None)
    def diagnosis(
        service: Annotated[
            str | None,
            Query(
                max_length=_LONGEST,
                description="Without it the service that is worst off is answered for.",
            ),
        ] = None,
        at: Annotated[
            str, Query(max_length=64, description="RFC 3339, `now-1h`, or seconds since 1970.")
        ] = "now",
    ) -> dict[str, Any] | JSONResponse:
        """Where the time goes and why: at most three causes, and what was not evaluated."""
        try:
            at_s = int(instant(at, clock()))
            return diagnosis_json(
                diagnose_asked(
                    reader, service, at_s, definitions, events=partial(_reported, told, at_s)
                )
            )
        except StagewatchError as error:
            return _problem(error)

    return routes


def _reported(told: ToldChanges | None, at_s: int, service: str) -> Sequence[Change] | None:
    if told is None:
        return None
    return told.between(at_s - _EARLIER_S, at_s, where=(("service", service),))


def _problem(error: StagewatchError) -> JSONResponse:
    """What is wrong with the question, or that the store cannot be read."""
    told = {"where": error.where, "problem": error.problem, "remedy": error.remedy}
    status = 503 if isinstance(error, StoreError) else 400
    return JSONResponse({"detail": str(error), **told}, status)
