"""A promise as it is watched: the objective, its rules, who is told and when it does not count."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from fractions import Fraction

from alerts.maintenance import Maintenance
from alerts.state import AT_ONCE, Timers
from domain.labels import Labels
from domain.objective import BurnRule, Objective, Severity, burn_rules

__all__ = ["Change", "Composite", "Definition", "Escalation", "slug"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """Who is told when nobody has acknowledged for so long."""

    after_s: int
    receivers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Another target from an instant on; what came before is kept to the old one."""

    since_s: int
    target: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A promise made of others, by their ids; `weights` multiply burn, none: the plain product."""

    name: str
    of: tuple[str, ...]
    weights: tuple[Fraction, ...] = ()
    target: Fraction | None = None
    description: str = ""

    @property
    def id(self) -> str:
        """Stable as long as the name is."""
        return slug(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A promise and how it is watched. `left_out`: rules that even a total outage never reaches.

    `receivers`: names, none: every receiver. `clear`: a firing alert ends below this share of its
    factor. `since_s`: what happened before does not count. `notes`: whether a budget that runs low
    is told. `labels` go along to receivers. `summary`: a template for their texts.
    """

    objective: Objective
    description: str = ""
    timers: Timers = AT_ONCE
    no_data_after_s: int = 600
    no_data: Severity | None = Severity.PAGE
    receivers: tuple[str, ...] = ()
    escalation: tuple[Escalation, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    clear: Fraction = Fraction(9, 10)
    since_s: int | None = None
    notes: bool = True
    labels: Labels = ()
    summary: str = ""
    changes: tuple[Change, ...] = ()

    @property
    def id(self) -> str:
        """Stable as long as the name is."""
        return slug(self.objective.name)

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def hopeless(self) -> str:
        """Why no rule could ever fire, at any time; "" where one can."""
        for each in (self, *(self.in_force(change.since_s) for change in self.changes)):
            if not each.rules:
                most = float(1 / each.objective.budget)
                least = min((float(rule.factor) for rule in each.left_out), default=1.0)
                return (
                    f"no rule can ever fire: a total outage burns {most:.3g}x, the mildest asks "
                    f"{least:.3g}x"
                )
        return ""

    def in_force(self, at_s: int) -> Definition:
        """What is promised at an instant: with the last target that had begun by then."""
        begun = [each.target for each in self.changes if each.since_s <= at_s]
        if not begun:
            return self
        return replace(self, objective=replace(self.objective, target=begun[-1]))

    @property
    def rules(self) -> tuple[BurnRule, ...]:
        return _rules(self.objective.period_s, self.objective.target)[0]

    @property
    def left_out(self) -> tuple[BurnRule, ...]:
        return _rules(self.objective.period_s, self.objective.target)[1]


@functools.lru_cache(maxsize=8192)
def slug(name: str) -> str:
    """The name as it stands in links and keys."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@functools.lru_cache
def _rules(period_s: int, target: Fraction) -> tuple[tuple[BurnRule, ...], tuple[BurnRule, ...]]:
    """The rules of a period: those that a total outage reaches, and the others."""
    rules = burn_rules(period_s)
    reached = tuple(rule for rule in rules if rule.factor * (1 - target) < 1)
    return reached, tuple(rule for rule in rules if rule not in reached)
