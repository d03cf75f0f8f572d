"""Why an alert fired, on its page: the likeliest cause in a line, then all of it with its doubts."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from alerts.diagnosed import Diagnosed
from alerts.diagnosis.diagnosis import Cause, Diagnosis
from alerts.diagnosis.telling import wanting
from alerts.diagnosis.wording import plain
from alerts.ledger import AlertRecord
from dashboard.alert_words import of_budget
from dashboard.causes import cause_list, causes_of, causes_told, unknown_note
from dashboard.parts import clock, quiet, sentence
from dashboard.stages import stage_word
from dashboard.viewer import Viewer

__all__ = ["found_causes", "headline", "likely"]

_SOON_S = 180


def likely(record: AlertRecord, diagnosed: Diagnosed | None, viewer: Viewer) -> Component | None:
    """What it most likely is, where, and what to do: for who reads no further."""
    if diagnosed is None:
        looking = _explained(record) and record.open and _is_new(record, viewer)
        return html.P(quiet("Looking for the cause…")) if looking else None
    newest = diagnosed.latest or diagnosed.first
    cause = next(iter(newest.causes), None)
    if cause is None:
        return html.P(quiet("No rule explains it: see below what could not be judged."))
    lines = [
        html.P(
            [
                html.Strong("Likely cause: "),
                sentence(plain(cause.cause)),
                quiet(_where(cause, newest)),
            ]
        ),
        *([html.P(quiet(sentence(plain("; ".join(cause.evidence)))))] if cause.evidence else []),
        html.P([html.Strong("Next: "), sentence(plain(cause.next_step))]),
    ]
    before = next(iter(diagnosed.first.causes), None)
    if diagnosed.changed is not None and before is not None and before.cause != cause.cause:
        lines.append(html.P(quiet(["When it fired: ", sentence(plain(before.cause))])))
    return html.Div(lines)


def headline(record: AlertRecord, diagnosed: Diagnosed | None) -> str:
    """What happened, in a sentence; of two next steps the one of the diagnosis stays."""
    told = record.blame.next_step if record.blame is not None else ""
    if diagnosed is None or not (diagnosed.latest or diagnosed.first).causes or not told:
        return record.message
    return record.message.replace(f" Next: {told}.", "", 1)


def found_causes(
    record: AlertRecord, diagnosed: Diagnosed | None, viewer: Viewer
) -> list[Component] | Component | None:
    """As it was found when it fired, and as it is now where that differs."""
    if diagnosed is None:
        return cause_list(causes_of(record.blame)) or _uncaused(record)
    if diagnosed.changed is None:
        return _told(diagnosed.first, record, viewer, "Found")
    return [
        *_told(diagnosed.changed, record, viewer, "Found last"),
        html.Details(
            [
                html.Summary("What was found when it fired"),
                *_told(diagnosed.first, record, viewer, "Found"),
            ],
            className="as-table",
        ),
    ]


def _told(found: Diagnosis, record: AlertRecord, viewer: Viewer, word: str) -> list[Component]:
    causes = cause_list(causes_told(found)) or cause_list(causes_of(record.blame))
    against = f", compared with {found.baseline}" if found.baseline else ", with nothing before it"
    when = html.P(
        quiet(
            [
                f"{word} at ",
                clock(viewer, found.at_s),
                " in the requests since ",
                clock(viewer, found.since_s),
                f"{against}.",
            ]
        )
    )
    return [
        each for each in (_trouble(found), causes, _contradicted(found), _open(found), when) if each
    ]


def _trouble(found: Diagnosis) -> Component | None:
    if found.trouble:
        return html.P(["The cause could not be looked for: ", sentence(plain(found.trouble))])
    if not found.causes:
        return html.P("No rule that could be judged explains it.")
    return None


def _contradicted(found: Diagnosis) -> Component | None:
    """What matched, and is spoken against by more than speaks for it."""
    if not found.contradicted:
        return None
    items = [
        html.Li(sentence(plain(f"{each.cause} ({each.rule}): but {'; '.join(each.contra)}")))
        for each in found.contradicted
    ]
    summary = html.Summary(f"{len(items)} more matched and {_are(len(items))} contradicted")
    return html.Details([summary, html.Ul(items)], className="as-table")


def _open(found: Diagnosis) -> Component | None:
    """What nobody could judge: by no means fine."""
    if not found.not_evaluated:
        return None
    items = [
        html.Li(sentence(plain(f"{each.rule}: {wanting(each.missing)}")))
        for each in found.not_evaluated
    ]
    count = len(items)
    words = f"{count} rule{'s' * (count != 1)} could not be judged, which is not the same as fine"
    return html.Details([html.Summary(words), html.Ul(items)], className="as-table")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _where(cause: Cause, found: Diagnosis) -> str:
    """Stage and place; of a cause that is of no stage, which one grew most."""
    place = cause.place if cause.place and cause.place not in cause.cause else ""
    grown = max(found.stages, key=lambda each: each.share_of_growth or 0.0, default=None)
    stage = f"stage {stage_word(cause.stage)}" if cause.stage is not None else ""
    if cause.stage is None and grown is not None and grown.share_of_growth:
        stage = f"{stage_word(grown.stage)} grew most"
    told = ", ".join(
        each for each in (stage, plain(place), f"{cause.confidence} confidence") if each
    )
    return f" ({told})"


def _explained(record: AlertRecord) -> bool:
    """Whether rules are asked about it at all."""
    return record.kind == "burn" and not of_budget(record)


def _is_new(record: AlertRecord, viewer: Viewer) -> bool:
    return viewer.now_s - record.started_at_s < _SOON_S


def _uncaused(record: AlertRecord) -> Component | None:
    if of_budget(record):
        return html.P(quiet("It is about the budget, and no stage: its page shows what spent it."))
    return None if record.kind in ("condition", "no-data") else unknown_note(record.blame)
