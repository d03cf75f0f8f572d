"""Values of alerts as JSON and back: what stands in the columns of the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from alerts.blame import Blame, Place
from alerts.definition_codec import definition_from, definition_text, indicator_text
from alerts.evaluate import Reason, Verdict
from alerts.history import Spending
from alerts.promise import Composite
from domain.labels import labels_of
from domain.objective import burn_rules
from domain.request import Stage
from domain.slice import Tally

__all__ = [
    "blame_from",
    "blame_text",
    "composites_from",
    "composites_text",
    "definition_from",
    "definition_text",
    "indicator_text",
    "standing_from",
    "standing_text",
]

_TALLY = ("good_low", "good_high", "total", "minutes", "observed_minutes")


def composites_text(composites: Iterable[Composite]) -> str:
    return json.dumps(
        [
            {
                "name": each.name,
                "of": list(each.of),
                "weights": [str(weight) for weight in each.weights],
                "target": None if each.target is None else str(each.target),
                "description": each.description,
            }
            for each in composites
        ]
    )


def composites_from(text: str) -> list[Composite]:
    return [
        Composite(
            name=said["name"],
            of=tuple(said["of"]),
            weights=tuple(Fraction(weight) for weight in said["weights"]),
            target=None if said["target"] is None else Fraction(said["target"]),
            description=said["description"],
        )
        for said in json.loads(text)
    ]


def standing_text(
    verdicts: Sequence[Verdict], spending: Spending, last_hour: Tally, trouble: str
) -> str:
    return json.dumps(
        {
            "verdicts": [
                [
                    each.rule.name,
                    each.reason.name,
                    _tally_list(each.long),
                    _tally_list(each.short),
                    each.holds,
                    each.observed,
                ]
                for each in verdicts
            ],
            "spending": [spending.as_counts(), spending.spent_low, spending.spent_high],
            "last_hour": _tally_list(last_hour),
            "trouble": trouble,
        }
    )


def standing_from(text: str, period_s: int) -> tuple[list[Verdict], Spending, Tally, str]:
    said = json.loads(text)
    rules = {rule.name: rule for rule in burn_rules(period_s)}
    verdicts = [
        Verdict(
            rule=rules[name],
            reason=Reason[reason],
            long=_tally(long),
            short=_tally(short),
            holds=holds,
            observed=observed,
        )
        for name, reason, long, short, holds, observed in said["verdicts"]
    ]
    return (
        verdicts,
        _spending(said["spending"]),
        _tally(said["last_hour"]),
        said.get("trouble", ""),  # why get: an earlier version did not write it
    )


def _spending(said: Sequence[Any]) -> Spending:
    if isinstance(said[0], str):  # why: the first version wrote one budget for all
        allowed, low, high, total = said
        return Spending({Fraction(allowed) / total: total} if total else {}, low, high)
    counts, low, high = said
    return Spending({Fraction(budget): total for budget, total in counts.items()}, low, high)


def blame_text(blame: Blame | None) -> str:
    if blame is None:
        return ""
    place = blame.place
    return json.dumps(
        {
            "stage": blame.stage,
            "now_s": blame.now_s,
            "before_s": blame.before_s,
            "share": blame.share,
            "missing": list(blame.missing),
            "next_step": blame.next_step,
            "per_token": blame.per_token,
            "behind": list(blame.behind),
            "place": place
            and {
                "labels": dict(place.labels),
                "mean_s": place.mean_s,
                "median_s": place.median_s,
                "replicas": place.replicas,
            },
        }
    )


def blame_from(text: str) -> Blame | None:
    if not text:
        return None
    said: dict[str, Any] = json.loads(text)
    place = said.pop("place")
    return Blame(
        **{
            **said,
            "stage": said["stage"] and Stage(said["stage"]),
            "missing": tuple(Stage(stage) for stage in said["missing"]),
            "behind": tuple(said.get("behind", ())),
            "place": place and Place(**{**place, "labels": labels_of(place["labels"])}),
        }
    )


def _tally_list(tally: Tally) -> list[int]:
    return [getattr(tally, name) for name in _TALLY]


def _tally(values: Sequence[int]) -> Tally:
    return Tally(**dict(zip(_TALLY, values, strict=True)))
