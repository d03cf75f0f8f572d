"""The HTTP API that begins a budget anew: who and why are asked for, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from alerts.access import Person, responder
from alerts.reset import Reset, reset_budget
from alerts.standing_json import rfc3339
from domain.errors import InputError

__all__ = ["reset_json", "reset_router"]


class ResetRequest(BaseModel):
    """Why the budget begins anew."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(max_length=1000, description="Why; it stands in the history.")
    author: str | None = Field(
        default=None, max_length=128, description="Who; a token's name wins."
    )


def reset_router(state: Engine, *, clock: Callable[[], float] = time.time) -> APIRouter:
    """`/api/v1/slos/{id}/reset`."""
    routes = APIRouter(prefix="/api/v1", tags=["objectives and alerts"])

    @routes.post("/slos/{objective_id}/reset")
    def reset(
        objective_id: str, asked: ResetRequest, person: Annotated[Person, Depends(responder)]
    ) -> dict[str, Any]:
        """The budget is full from the next whole minute on. Nothing is deleted."""
        author = person.author(asked.author)
        try:
            done = reset_budget(
                state, objective_id, author=author, reason=asked.reason, at_s=int(clock())
            )
        except InputError as error:
            raise HTTPException(422, str(error)) from error
        if done is None:
            raise HTTPException(
                404, f"there is no objective {objective_id[:400]!r}; see /api/v1/slos"
            )
        return reset_json(done)

    return routes


def reset_json(reset: Reset) -> dict[str, Any]:
    """What was written down."""
    return {
        "objective_id": reset.objective_id,
        "at": rfc3339(reset.at_s),
        "author": reset.author,
        "reason": reset.reason,
        "remaining_before": reset.remaining,
    }
