"""What is behind an alert: up to three causes, each with what speaks for it, against it, and what next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from alerts.blame import Blame
from alerts.diagnosis import diagnosis
from alerts.diagnosis.diagnosis import Diagnosis
from alerts.diagnosis.wording import plain
from dashboard.parts import quiet, sentence
from dashboard.quantity import percent, seconds
from dashboard.stages import stage_word
from domain.request import Stage

__all__ = ["Cause", "cause_list", "causes_of", "causes_told", "unknown_note"]

_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause in words: what speaks for it, what against it, and what nobody could say."""

    title: str
    place: str = ""
    speaks_for: Sequence[str] = ()
    speaks_against: Sequence[str] = ()
    unknown: Sequence[str] = ()
    next_step: str = ""


def causes_of(blame: Blame | None) -> list[Cause]:
    """What the comparison of stages says; an engine that stood still comes before any stage."""
    if blame is None:
        return []
    found = [Cause(title=each) for each in blame.behind]
    if blame.stage is not None:
        found.append(_stage(blame, blame.stage))
    return found[:_MOST]


def causes_told(found: Diagnosis) -> list[Cause]:
    """What the rules say, the likeliest first."""
    return [
        Cause(
            title=plain(_capital(f"{each.cause} ({each.rule}, {each.confidence} confidence)")),
            place=plain(_where(each)),
            speaks_for=[plain(said) for said in each.evidence],
            speaks_against=[plain(said) for said in each.contra],
            unknown=[plain(said) for said in each.missing],
            next_step=plain(each.next_step),
        )
        for each in found.causes[:_MOST]
    ]


def _where(cause: diagnosis.Cause) -> str:
    stage = f"stage {stage_word(cause.stage)}" if cause.stage is not None else ""
    return ", ".join(each for each in (stage, cause.place) if each)


def cause_list(causes: Sequence[Cause]) -> Component | None:
    """The likeliest first; None where nothing is known."""
    if not causes:
        return None
    items = [html.Li(_cause(each)) for each in causes[:_MOST]]
    return html.Ol(items, className="causes")


def _cause(cause: Cause) -> list[Component]:
    lines: list[tuple[str, Sequence[str]]] = [("Where", [cause.place] if cause.place else [])]
    lines += [("For", cause.speaks_for), ("Against", cause.speaks_against)]
    lines.append(("Not known", cause.unknown))
    told = [
        html.Div([html.Dt(word), html.Dd([html.P(sentence(each)) for each in texts])])
        for word, texts in lines
        if texts
    ]
    if cause.next_step:
        step = html.Strong(sentence(_capital(cause.next_step)))
        told.append(html.Div([html.Dt("Next"), html.Dd(step)]))
    return [html.H3(sentence(cause.title)), html.Dl(told)]


def _stage(blame: Blame, stage: Stage) -> Cause:
    per = " per token" if blame.per_token else ""
    name = _capital(stage_word(stage))
    before = f", {seconds(blame.before_s)} before" if blame.before_s is not None else ""
    speaks_for = [f"mean {seconds(blame.now_s)}{per} now{before}"]
    if blame.share is not None:
        speaks_for.append(f"it carries {percent(blame.share)} of all that grew")
    against = [] if blame.before_s is not None else ["nothing was seen before to compare it with"]
    if blame.before_s is not None and blame.share is None:
        against.append("no stage grew; it is only the longest")
    unknown = [f"{stage_word(each)}: nobody measures it" for each in blame.missing]
    placed, alike = _place(blame)
    return Cause(
        title=f"{name}{per} {'grew' if blame.share else 'is the longest stage'}",
        speaks_for=[*speaks_for, *placed],
        speaks_against=[*against, *alike],
        unknown=unknown,
        next_step=blame.next_step,
    )


def _place(blame: Blame) -> tuple[list[str], list[str]]:
    """For one replica, or against it."""
    place = blame.place
    if place is None:
        return [], []
    compared = f"{seconds(place.mean_s)} against {seconds(place.median_s)}, the median {place.of}"
    if place.stands_out:
        return [f"worst: {place.name}, {compared}"], []
    if place.replicas > 1:
        return [], [f"a single bad {place.of}: all {place.replicas} do alike ({compared} at worst)"]
    return [f"{place.name}, the only {place.of}"], []


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def unknown_note(blame: Blame | None) -> Component | None:
    """That no stage could be blamed, and why."""
    if blame is not None and blame.stage is not None:
        return None
    if blame is None:
        return html.P(quiet("Which stage is at fault could not be asked when it fired."))
    missing = ", ".join(stage_word(each) for each in blame.missing)
    return html.P(quiet(f"Which stage is at fault is not known. Not measured: {missing or 'any'}."))
