"""The HTTP API of deliveries: what was sent to whom, and how the receivers are doing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Engine

from alerts.delivery_log import deliveries, doing_json, receivers, sent_json

__all__ = ["router"]


def router(state: Engine) -> APIRouter:
    """`/api/v1/deliveries` and `/api/v1/receivers`."""
    routes = APIRouter(prefix="/api/v1", tags=["deliveries"])

    @routes.get("/deliveries")
    def sent(
        receiver: Annotated[str | None, Query(max_length=64)] = None,
        alert: Annotated[str | None, Query(max_length=320)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> dict[str, Any]:
        """Notifications, the newest first, each with its attempts."""
        found = deliveries(state, receiver=receiver, alert_id=alert, limit=limit)
        return {"deliveries": [sent_json(each) for each in found]}

    @routes.get("/receivers")
    def doing() -> dict[str, Any]:
        """What waits for each receiver, and how its last attempt ended."""
        return {"receivers": [doing_json(each) for each in receivers(state)]}

    return routes
