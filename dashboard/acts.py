"""What a responder does from a page: forms that `assets/acts.js` sends to the API, and their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from dash import html
from dash.development.base_component import Component

from alerts.ledger import AlertRecord
from alerts.runbook import address, anchor_of
from alerts.silence import Silence
from dashboard.parts import SPOKEN_WHEN_CHANGED, clock, link, name_text, quiet, said
from dashboard.url import SILENCES, View
from dashboard.viewer import Viewer

__all__ = [
    "acting",
    "acts",
    "expire",
    "field",
    "form",
    "matchers_for",
    "outside",
    "send",
    "taken_text",
]

_HOUR_S = 3600
_SCHEMES = ("https", "http")


def acts(alert: AlertRecord, runbook: str, viewer: Viewer) -> Component:
    """Take it, silence it for an hour, open the runbook, hand the link on."""
    elsewhere: list[Component] = [_runbook(alert, runbook, viewer)]
    copy: dict[str, Any] = {"data-copy": "1"}
    elsewhere.append(html.Button("Copy link", type="button", className="button", **copy))
    if not alert.open:
        return html.Div(elsewhere, className="acts")
    if not viewer.may_act:
        told = quiet("Only responders acknowledge and silence; you may look.")
        return html.Div([*elsewhere, told], className="acts")
    longer = View(alone=SILENCES, matchers=matchers_for(alert))
    fields = [
        field("author", "Your name", most=128, kept=True),
        field("note", "What is being done", most=1000),
    ]
    buttons = [html.Span(acting(alert, viewer), id={"region": "acting"}), *elsewhere]
    more = link("Silence for longer, or more than this", viewer.href(longer))
    return form([html.Div(fields, className="fields"), html.Div(buttons, className="acts"), more])


def _runbook(alert: AlertRecord, runbook: str, viewer: Viewer) -> Component:
    """The promise's own, else ours for alerts of this kind."""
    if runbook:
        return outside("Open the runbook", runbook)
    tier = alert.id.removeprefix(f"{alert.objective_id}-").rpartition("-")[0]
    there = address(viewer.address(""), anchor_of(tier, alert.objective_id))
    return html.A("Open the runbook", href=there, target="_blank", className="button")


def acting(alert: AlertRecord, viewer: Viewer) -> list[Component]:
    """The buttons, which change with who has it; a refresh fills them in among the kept fields."""
    if not alert.open:
        return []
    return [*_taking(alert, viewer), _silencing(alert, viewer)]


def _taking(alert: AlertRecord, viewer: Viewer) -> list[Component]:
    base = viewer.address(f"/api/v1/alerts/{quote(alert.id, safe='')}")
    if alert.response.acknowledgement is None:
        return [send("Acknowledge", f"{base}/ack", main=True)]
    return [send("Let go of it", f"{base}/unack")]


def _silencing(alert: AlertRecord, viewer: Viewer) -> Component:
    body = {"matchers": list(matchers_for(alert)), "duration_s": _HOUR_S}
    return send(
        "Silence for 1 h",
        viewer.address("/api/v1/silences"),
        body=body,
        fields={"note": "reason"},
    )


def matchers_for(alert: AlertRecord) -> tuple[str, ...]:
    """A silence of this alert and of no other."""
    return (f"objective={alert.objective_id}", f"severity={alert.severity}")


def expire(silence: Silence, viewer: Viewer) -> Component:
    """Ends a silence now."""
    address = viewer.address(f"/api/v1/silences/{quote(silence.id, safe='')}")
    names = ", ".join(str(each) for each in silence.matchers)
    button = send("End now", address, method="DELETE", label=f"End the silence of {names[:120]}")
    return form([button])


def form(parts: Sequence[Component], **more: Any) -> Component:
    """A form that says beneath itself what came of it. Scripts send it; nothing else may."""
    answer = html.Output(className="answer", **SPOKEN_WHEN_CHANGED)
    marks: dict[str, Any] = {"data-acts": "1", **more}
    return html.Form([*parts, answer], className="act", **marks)


def field(
    name: str, label: str, *, most: int, kept: bool = False, rows: int = 1, text: str = ""
) -> Component:
    """A named field. `kept`: this browser remembers what was typed.

    why a text area: nothing of Dash holds its text, so that a refresh cannot take it away.
    """
    marks: dict[str, Any] = {"data-kept": name} if kept else {}
    area = html.Textarea(
        text, name=name, rows=rows, maxLength=most, autoComplete="off", spellCheck="false", **marks
    )
    return html.Label([html.Span(label), area], className=f"field field-{name}")


def send(
    face: str,
    address: str,
    *,
    method: str = "POST",
    body: Mapping[str, Any] | None = None,
    fields: Mapping[str, str] | None = None,
    main: bool = False,
    label: str = "",
) -> Component:
    """A button that sends its form. `body`: what goes along; `fields`: names that the API wants."""
    marks: dict[str, Any] = {"data-send": address, "data-method": method}
    marks |= {"data-body": json.dumps(body)} if body else {}
    marks |= {"data-fields": json.dumps(fields)} if fields else {}
    marks |= said(label) if label else {}
    kind = "button main" if main else "button"
    return html.Button(face, type="submit", className=kind, **marks)


def outside(face: str, address: str) -> Component:
    """A link that somebody wrote: only to the web, and telling nobody where it was clicked."""
    if urlsplit(address).scheme not in _SCHEMES:
        return html.Span([quiet("Runbook: "), name_text(address)])
    return html.A(
        face, href=address, target="_blank", rel="noopener noreferrer", className="button"
    )


def taken_text(alert: AlertRecord, viewer: Viewer) -> list[Component | str]:
    """Who has it, since when, and what they said."""
    taken = alert.response.acknowledgement
    if taken is None:
        return []
    note: list[Component | str] = [": ", name_text(taken.note)] if taken.note else []
    return [name_text(taken.by), " has it since ", clock(viewer, taken.at_s), *note]
