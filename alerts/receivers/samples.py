"""Invented notifications, one of each kind: for previews, for checking templates, for a test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["EVENTS", "sample"]

_STARTED_S = 1_772_366_940  # 2026-03-01 12:09 UTC, an invented Sunday
_SENTENCE = (
    "chat-ttft pages since 12:09 UTC: 151 of 1000 requests in the last 1 h waited more than 1.5 s "
    "for the first token (15.1 %); the promise is at most 1 %."
)
_ACCUSED = (
    "Queue carries 86 % of what grew: now 2.31 s, 0.12 s before, worst on decode-3 (pool decode) "
    "with 4.02 s against 0.31 s on the median replica. Next: look at running and waiting requests "
    "per replica: shed load, or add capacity."
)
EVENTS = (
    "firing",
    "resolved",
    "stale",
    "no-data",
    "condition",
    "acknowledged",
    "escalated",
    "renotified",
    "note",
    "test",
)
"""The kinds of sample there are."""


def sample(kind: str = "firing", *, link: str = "http://127.0.0.1:8400") -> dict[str, Any]:
    """A notification of this kind, as the outbox would hold it."""
    alert = "chat-ttft-page-1772366940"
    body: dict[str, Any] = {
        "version": 1,
        "event": kind if kind not in ("stale", "no-data", "condition") else "firing",
        "dedup_key": "5d0c1d8f2c5b4a7f9e0a6b3c1d2e4f50",
        "alert_id": alert,
        "objective": "chat-ttft",
        "objective_id": "chat-ttft",
        "severity": "page",
        "tier": "page",
        "text": f"{_SENTENCE} {_ACCUSED}",
        "summary": "",
        "stale": False,
        "counts": {
            "long": {"window_s": 3600, "bad": 151, "bad_possible": 151, "total": 1000},
            "short": {"window_s": 300, "bad": 17, "bad_possible": 17, "total": 84},
        },
        "why": [
            "last 1 h: 151 of 1000 bad, 15.1 % > 14.4 %",
            "last 5 min: 17 of 84 bad, 20.2 % > 14.4 %",
        ],
        "budget_remaining": 0.43,
        "stage": "queue",
        "place": {"pool": "decode", "replica": "decode-3"},
        "next": "look at running and waiting requests per replica: shed load, or add capacity",
        "not_measured": ["network"],
        "diagnosis": [],
        "labels": {"team": "inference", "use_case": "chat"},
        "receivers": [],
        "started_at": _rfc3339(_STARTED_S),
        "resolved_at": None,
        "links": {
            "alert": f"{link}/alerts/{alert}",
            "objective": f"{link}/objectives/chat-ttft",
            "runbook": "https://wiki.example/runbooks/chat-ttft",
        },
    }
    return body | _CHANGES.get(kind, {}) | {"idempotency_key": "0" * 32}


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


_UNKNOWN: dict[str, Any] = {
    "counts": None,
    "why": [],
    "budget_remaining": None,
    "stage": None,
    "place": None,
    "next": None,
    "not_measured": [],
}
_CHANGES: dict[str, dict[str, Any]] = {
    "resolved": {
        **_UNKNOWN,
        "text": "chat-ttft is over at 12:58 UTC after 49 min: 0 of 97 requests in the last 5 min "
        "waited more than 1.5 s for the first token.",
        "budget_remaining": 0.39,
        "resolved_at": _rfc3339(_STARTED_S + 49 * 60),
    },
    "stale": {
        "stale": True,
        "text": _SENTENCE.replace(" UTC:", " UTC (stale: nobody looks since 12:20 UTC):"),
    },
    "no-data": {
        **_UNKNOWN,
        "tier": "no-data",
        "text": "chat-ttft pages: nobody observes it since 12:20 UTC, so a broken promise would go "
        "unseen. Next: look whether its exporters, replicas and collector are up.",
    },
    "condition": {
        **_UNKNOWN,
        "tier": "condition",
        "objective": "engine stalled on decode-3",
        "text": "decode-3 stands still since 12:08 UTC: 31 requests run, 12 wait, and no token "
        "came out. Next: restart it, and keep its log.",
        "place": {"pool": "decode", "replica": "decode-3"},
    },
    "acknowledged": {"text": "chat-ttft is acknowledged by ada: I am on it."},
    "escalated": {
        "text": f"Nobody has acknowledged this for 15 min. {_SENTENCE}",
    },
    "renotified": {"text": f"The silence is over and it still fires. {_SENTENCE}"},
    "note": {
        **_UNKNOWN,
        "severity": "ticket",
        "tier": "ticket",
        "text": "chat-ttft has 49.8 % of its budget left; it crossed 50 % at 12:40 UTC.",
        "budget_remaining": 0.498,
    },
    "test": {
        **_UNKNOWN,
        "objective": "a test",
        "text": "This is a test of this receiver. Nothing is wrong.",
        "labels": {},
    },
}
