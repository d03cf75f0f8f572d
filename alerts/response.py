"""What people did about an alert: who has it, until when, and what silences it."""

from __future__ import annotations

from dataclasses import dataclass

from alerts.tables import ResponseRow

__all__ = ["Acknowledgement", "Response", "acknowledged", "response_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Somebody has it. `until_s`: it runs out then; None: with the alert."""

    by: str
    note: str
    at_s: int
    until_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`escalated`: so many further steps were told. `told`: the receivers that know of it."""

    acknowledgement: Acknowledgement | None = None
    silence_id: str | None = None
    escalated: int = 0
    told: tuple[str, ...] = ()


def acknowledged(row: ResponseRow) -> bool:
    """Whether somebody has it."""
    return row.acknowledged_at_s is not None


def response_from(row: ResponseRow | None, told: tuple[str, ...] = ()) -> Response:
    """As it stands in the tables; an alert of which nothing is kept was told to nobody."""
    if row is None:
        return Response(told=told)
    taken = None
    if row.acknowledged_at_s is not None:
        taken = Acknowledgement(
            by=row.acknowledged_by,
            note=row.note,
            at_s=row.acknowledged_at_s,
            until_s=row.acknowledged_until_s,
        )
    return Response(
        acknowledgement=taken, silence_id=row.silence_id, escalated=row.steps, told=told
    )
