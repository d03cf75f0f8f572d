"""From a point of a curve to the requests behind it: the slowest of its step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.query import Window
from dashboard.measure import Curve
from dashboard.sieve import METRICS, Sieve
from dashboard.url import REQUESTS, View
from dashboard.viewer import Viewer
from domain.labels import Labels

__all__ = ["exemplars", "requests_of_step"]

_OF_GAPS = {"itl": "itl_max"}
"""A request has many gaps between tokens; it is found by its longest."""


def exemplars(
    metric: str, where: Labels, found: Mapping[str, Curve], viewer: Viewer
) -> dict[str, Any]:
    """What `assets/requests.js` needs to make an address of a point that is pressed."""
    view = _view(metric, where)
    step_s = next((_step_s(each) for each in found.values() if len(each.since_s)), 0)
    return {"open": viewer.href(view), "step_s": step_s} if view is not None and step_s else {}


def requests_of_step(
    metric: str, where: Labels, found: Curve, place: int, viewer: Viewer
) -> str | None:
    """The same as a link; None where requests are not compared by the metric."""
    view = _view(metric, where)
    if view is None:
        return None
    step = Window(since_s=int(found.since_s[place]), until_s=int(found.until_s[place]))
    return viewer.href(view.between(step.since_s, step.until_s))


def _view(metric: str, where: Labels) -> View | None:
    by = _OF_GAPS.get(metric, metric)
    return View(alone=REQUESTS, where=where, sieve=Sieve(metric=by)) if by in METRICS else None


def _step_s(found: Curve) -> int:
    """The last step of a window may be cut short."""
    return int(found.until_s[0] - found.since_s[0])
