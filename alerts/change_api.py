"""The HTTP API of what changed: pipelines report it, everybody lists it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from alerts.access import Person, responder
from alerts.change import Change, report
from alerts.changes import MOST, changes
from alerts.ledger import Ledger
from alerts.standing_json import rfc3339
from alerts.told_changes import ToldChanges
from collector.query import Reader, Window
from domain.errors import InputError
from domain.labels import LABEL_NAMES, Labels, labels_of
from domain.objective import DAY_S

__all__ = ["change_json", "change_router"]

_Text = Annotated[str, Field(max_length=1000)]


class EventRequest(BaseModel):
    """Something that changed, as whoever changed it reports it."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="What, in words: `llama-3.3-70b v42 rolls out`."
    )
    at: AwareDatetime | None = Field(default=None, description="When; default: now.")
    kind: str = Field(
        default="deploy", max_length=32, description="A short word: deploy, config, scaling, …"
    )
    labels: Annotated[dict[_Text, _Text], Field(max_length=10)] = Field(
        default={}, description="Of whom: `service`, `model`, … Without any it concerns all."
    )
    link: str = Field(default="", max_length=1000, description="http(s), where more is said.")
    author: str | None = Field(
        default=None, max_length=128, description="Who; a token's name wins."
    )


def change_router(
    state: Engine, reader: Reader, ledger: Ledger, *, clock: Callable[[], float] = time.time
) -> APIRouter:
    """`/api/v1/events`."""
    routes = APIRouter(prefix="/api/v1", tags=["what changed"])
    told = ToldChanges(state)

    @routes.post("/events", status_code=201)
    def add(
        asked: EventRequest, response: Response, person: Annotated[Person, Depends(responder)]
    ) -> dict[str, Any]:
        """Kept once, however often it is sent: 201 the first time, 200 after that."""
        now_s = int(clock())
        try:
            wish = Change(
                at_s=now_s if asked.at is None else int(asked.at.timestamp()),
                kind=asked.kind,
                title=asked.title,
                labels=labels_of(asked.labels),
                link=asked.link,
                author=person.author(asked.author),
            )
            kept, new = told.add(report(wish, now_s=now_s))
        except (InputError, OverflowError) as error:
            raise HTTPException(422, str(error)) from error
        response.status_code = 201 if new else 200
        return change_json(kept)

    @routes.get("/events")
    def listed(
        *,
        since: Annotated[
            AwareDatetime | None, Query(alias="from", description="Default: a day before `to`")
        ] = None,
        until: Annotated[
            AwareDatetime | None, Query(alias="to", description="Default: now")
        ] = None,
        where: Annotated[list[str], Query(description="`label=value`, repeatable")] = [],  # noqa: B006 - FastAPI copies defaults
        kind: Annotated[str, Query(max_length=32, description="Only of this kind")] = "",
    ) -> dict[str, Any]:
        """What was reported and what Stagewatch saw by itself; the newest first."""
        now_s = int(clock())
        until_s = now_s + 1 if until is None else int(until.timestamp())
        since_s = until_s - DAY_S if since is None else int(since.timestamp())
        if not 0 < until_s - since_s <= 90 * DAY_S:
            raise HTTPException(422, "`from` lies before `to`, by 90 days at most")
        window = Window(since_s=since_s, until_s=until_s)
        found = changes(reader, ledger, window, where=_labels(where), now_s=now_s)
        shown = [change_json(each) for each in reversed(found) if kind in ("", each.kind)]
        return {"events": shown, "most": MOST}

    return routes


def change_json(change: Change) -> dict[str, Any]:
    """One change. Without author Stagewatch saw it by itself."""
    return {
        "id": change.id,
        "at": rfc3339(change.at_s),
        "until": None if change.until_s is None else rfc3339(change.until_s),
        "kind": change.kind,
        "title": change.title,
        "labels": dict(change.labels),
        "link": change.link,
        "author": change.author,
    }


def _labels(terms: list[str]) -> Labels:
    pairs = [term.partition("=") for term in terms]
    wrong = [name for name, mark, _ in pairs if not mark or name not in LABEL_NAMES]
    if wrong:
        raise HTTPException(422, f"{wrong[0][:40]!r} is no `label=value` of a known label")
    return labels_of({name: value for name, _, value in pairs})
