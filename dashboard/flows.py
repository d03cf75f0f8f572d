"""Requests in and out as pages say them: how many a second, since when, how many never ended."""

from __future__ import annotations

from collector.query import Flow, Stages, Window
from dashboard.quantity import NOTHING, at_least, counted
from dashboard.viewer import Viewer

__all__ = ["finished", "gone_wrong", "per_s", "since_text", "unfinished_text", "watched"]

_LATE_S = 60
"""Data that begin so soon after the window does began before it, for all that tiles can tell."""


def finished(now: Stages) -> int:
    """Requests that ended, by the engines' count or by the latencies that were told.

    why the larger: a sidecar that began later than the spans has counted only since then.
    """
    return max(now.flow.finished or 0, now.e2e.n or now.ttft.n)


def watched(window: Window, since_s: int | None) -> Window:
    """The part of the window from which on anybody watched: what rates are over."""
    if since_s is None or since_s - window.since_s <= _LATE_S or since_s >= window.until_s:
        return window
    return Window(since_s=since_s, until_s=window.until_s)


def per_s(now: Stages | None, over: Window) -> float | None:
    """Requests that ended, per second of the time that was watched."""
    return None if now is None else finished(now) / (over.until_s - over.since_s)


def since_text(window: Window, over: Window, viewer: Viewer) -> str:
    """As in "since 02:13", where that is later than the window's beginning."""
    return f"since {viewer.clock(over.since_s)}" if over.since_s > window.since_s else ""


def unfinished_text(flow: Flow | None) -> str:
    """Started minus finished, with its doubt; nothing where nobody came."""
    if flow is None:
        return NOTHING
    return at_least(flow.unfinished_low, flow.unfinished_high)


def gone_wrong(flow: Flow) -> tuple[str, str]:
    """What failed; and what was given up or refused."""
    if flow.cancelled is None and flow.rejected is None:
        return counted(flow.failed), "cancelled and rejected: not counted"
    return (
        counted(flow.failed),
        f"cancelled: {counted(flow.cancelled)}, rejected: {counted(flow.rejected)}",
    )
