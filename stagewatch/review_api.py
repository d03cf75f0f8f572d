"""The HTTP API of weekly reviews: the kept ones, and what people decided about them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from alerts.access import Person, responder
from alerts.standing_json import rfc3339
from domain.errors import StagewatchError
from review.html_page import html_page
from review.markdown import markdown
from review.report import report
from review.review_value import to_json
from review.shelf import MOST_WHY, Decision, Kept, Shelf

__all__ = ["review_router"]


class DecisionRequest(BaseModel):
    """Whether it was done, and why."""

    model_config = ConfigDict(extra="forbid")

    done: bool = Field(description="Whether what it advises was done.")
    why: str = Field(min_length=1, max_length=MOST_WHY, description="Why; others will ask.")
    author: str | None = Field(
        default=None, max_length=128, description="Who; a token's name wins."
    )


def review_router(shelf: Shelf, *, clock: Callable[[], float] = time.time) -> APIRouter:
    """`/api/v1/reviews`, `/api/v1/reviews/{id}`, `/api/v1/reviews/{id}/decision`."""
    routes = APIRouter(prefix="/api/v1", tags=["weekly review"])

    @routes.get("/reviews")
    def reviews(
        service: str | None = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
    ) -> dict[str, Any]:
        """The newest first, each in a line."""
        return {"reviews": [_summary(each) for each in shelf.all(service=service, limit=limit)]}

    @routes.get("/reviews/{review_id}")
    def one(review_id: str) -> dict[str, Any]:
        """The whole review, as `stagewatch review --out FILE.json` writes it."""
        kept = _found(shelf, review_id)
        return {**_summary(kept), "review": json.loads(to_json(kept.review))}

    @routes.get("/reviews/{review_id}/report.html", response_class=HTMLResponse)
    def page(review_id: str) -> HTMLResponse:
        """One page that needs nothing else; prints to two."""
        return HTMLResponse(html_page(report(_found(shelf, review_id))))

    @routes.get("/reviews/{review_id}/report.md", response_class=PlainTextResponse)
    def text(review_id: str) -> PlainTextResponse:
        """The same as Markdown."""
        written = markdown(report(_found(shelf, review_id)))
        return PlainTextResponse(written, media_type="text/markdown")

    @routes.post("/reviews/{review_id}/decision")
    def decide(
        review_id: str, asked: DecisionRequest, person: Annotated[Person, Depends(responder)]
    ) -> dict[str, Any]:
        """The last word counts."""
        try:
            decision = Decision(
                done=asked.done, why=asked.why, author=person.author(asked.author), at_s=clock()
            )
        except StagewatchError as error:
            raise HTTPException(422, str(error)) from error
        kept = shelf.decide(review_id, decision)
        if kept is None:
            raise _unknown(review_id)
        return _summary(kept)

    return routes


def _found(shelf: Shelf, review_id: str) -> Kept:
    kept = shelf.one(review_id)
    if kept is None:
        raise _unknown(review_id)
    return kept


def _unknown(review_id: str) -> HTTPException:
    return HTTPException(404, f"there is no review {review_id[:80]!r}; see /api/v1/reviews")


def _summary(kept: Kept) -> dict[str, Any]:
    review, decision = kept.review, kept.decision
    return {
        "id": kept.id,
        "at": rfc3339(int(review.at_s)),
        "from": rfc3339(int(review.since_s)),
        "to": rfc3339(int(review.until_s)),
        "service": review.service,
        "split": str(review.split),
        "aim": str(review.verdict.aim) if review.verdict.aim else None,
        "verdict": review.verdict.kind.value,
        "says": review.verdict.says,
        "decision": decision
        and {
            "done": decision.done,
            "why": decision.why,
            "author": decision.author,
            "at": rfc3339(int(decision.at_s)),
        },
    }
