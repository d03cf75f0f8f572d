"""The runbook as a page: what each alert means, where to look, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from alerts.runbook import ENTRIES, PATH, Entry, rule_entries
from dashboard.mount import asked
from dashboard.still_page import still_page

__all__ = ["runbook_routes"]

_BODY = """      <p><a href="{prefix}/">Fleet</a> · <a href="{prefix}/alerts">Alerts</a></p>
      <h1>Runbook</h1>
      <p>What each alert means, where to look and what to do, in this order.</p>
      {contents}
      {entries}"""


def runbook_routes() -> APIRouter:
    """`/runbook`."""
    routes = APIRouter()

    @routes.get(PATH, include_in_schema=False)
    def runbook() -> Response:
        body = _body(asked().prefix)
        return HTMLResponse(still_page("Runbook", body, kind="runbook", sheets=("runbook",)))

    return routes


def _body(prefix: str) -> str:
    parts = list(_parts())
    return _BODY.format(
        prefix=escape(prefix),
        contents="".join(_contents(title, entries) for title, entries in parts),
        entries="".join(_part(title, entries) for title, entries in parts),
    )


def _parts() -> Iterator[tuple[str, list[Entry]]]:
    yield "Alerts", list(ENTRIES)
    for family, entries in groupby(rule_entries(), key=lambda each: each[0]):
        yield f"Causes {family}", [entry for _, entry in entries]


def _contents(title: str, entries: Iterable[Entry]) -> str:
    links = " · ".join(f'<a href="#{each.anchor}">{_short(each)}</a>' for each in entries)
    return f"<p>{escape(title)}: {links}</p>"


def _short(entry: Entry) -> str:
    return escape(entry.anchor.upper() if len(entry.anchor) < 4 else entry.title)  # a rule's id


def _part(title: str, entries: Iterable[Entry]) -> str:
    return f"<h2>{escape(title)}</h2>{''.join(map(_entry, entries))}"


def _entry(entry: Entry) -> str:
    steps = "".join(f"<li>{_code(step)}</li>" for step in entry.steps)
    ends = f'<p class="quiet">{_code(entry.ends)}</p>' if entry.ends else ""
    name = f"{entry.anchor.upper()} " if len(entry.anchor) < 4 else ""
    return (
        f'<section id="{entry.anchor}"><h3>{name}{escape(entry.title)}</h3>'
        f"<p>{_code(entry.means)}</p><ol>{steps}</ol>{ends}</section>"
    )


def _code(text: str) -> str:
    """What stands between backticks is a command or a name."""
    return "".join(
        f"<code>{escape(part)}</code>" if place % 2 else escape(part)
        for place, part in enumerate(text.split("`"))
    )
