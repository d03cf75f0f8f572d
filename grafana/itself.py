"""Stagewatch itself: does everything arrive, is everything judged, is everybody told."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.common import BigValueTextMode

from dashboard.theme import State
from grafana.colours import STATES
from grafana.parts import board, counted, heat, lines, number, query, row

__all__ = ["itself"]

_COLLECTOR = "stagewatch_collector_"


def itself() -> dashboard.Dashboard:
    return board(
        "stagewatch-itself",
        "Stagewatch: itself",
        "Exports in, objectives judged, people told; sidecars and what waits on their disks.",
        [*_now(), *_collector(), *_alerts(), *_sidecars()],
        page="/status",
    )


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({_COLLECTOR}{name}_total[$__rate_interval]))"


def _now() -> Sequence[object]:
    kept, page = STATES[State.HEALTHY], STATES[State.PAGE]
    return [
        counted(
            number(
                "Judges and tells",
                "none",
                query("max(stagewatch_alerts_leading)", instant=True),
                width=6,
                text="1 where one process leads; with 0 nobody is paged.",
            ),
            (None, page),
            (1, kept),
        ),
        counted(
            number(
                "Receivers that cannot be told",
                "none",
                query("max(stagewatch_alerts_receivers_failing)", instant=True),
                width=6,
            ),
            (None, kept),
            (1, page),
        ),
        counted(
            number(
                "Age of these answers",
                "s",
                query("min(time() - stagewatch_answers_timestamp_seconds)", instant=True),
                width=6,
            ),
            (None, kept),
            (60, page),
        ),
        number(
            "Version", "none", query("stagewatch_build_info", "{{version}}", instant=True), width=6
        ).text_mode(BigValueTextMode.NAME),
    ]


def _collector() -> Sequence[object]:
    return [
        row("Collector"),
        lines(
            "Spans and points taken",
            "cps",
            query(_rate("received_spans", "protocol"), "spans {{protocol}}"),
            query(_rate("received_points", "protocol"), "points {{protocol}}"),
        ),
        lines(
            "Refused, late or twice",
            "cps",
            query(_rate("refused_exports", "reason"), "refused: {{reason}}"),
            query(_rate("late_spans", "job"), "late spans"),
            query(_rate("duplicate_spans", "job"), "twice"),
        ),
        heat(
            "Time to take an export",
            f"sum by (le) (increase({_COLLECTOR}export_duration_seconds_bucket[$__rate_interval]))",
        ),
        lines(
            "Exports that wait for the store",
            "bytes",
            query(f"sum({_COLLECTOR}queued_bytes)", "waiting"),
        ),
        lines(
            "Prometheus remote-write",
            "cps",
            query(_rate("remote_write_taken_samples", "job"), "samples taken"),
            query(_rate("remote_write_ignored_series", "job"), "series of no concern"),
        ),
        lines(
            "Time to work these answers out",
            "s",
            query("max(stagewatch_answers_duration_seconds)", "took"),
            text="In the background; a scrape only reads them.",
        ),
    ]


def _alerts() -> Sequence[object]:
    return [
        row("Alerts"),
        lines(
            "Notifications",
            "none",
            query('{__name__=~"stagewatch_alerts_.+",__name__!~".+_leading"}', "{{__name__}}"),
        ),
        lines(
            "Combinations of labels and endpoints left out",
            "none",
            query("max(stagewatch_answers_groups_left_out)", "combinations"),
            query("max(stagewatch_answers_endpoints_left_out)", "managed endpoints"),
            text="Beyond `summary.max_groups`; they are in Stagewatch all the same.",
        ),
    ]


def _sidecars() -> Sequence[object]:
    return [
        row("Sidecars"),
        lines(
            "Exports that wait",
            "bytes",
            query(
                "sum by (instance, where) (stagewatch_exporter_spool_bytes)",
                "{{instance}} {{where}}",
            ),
        ),
        lines(
            "Exports by outcome",
            "cps",
            query(
                "sum by (outcome) (rate(stagewatch_exporter_exports_total[$__rate_interval]))",
                "{{outcome}}",
            ),
        ),
        lines(
            "Scrapes that gave nothing",
            "cps",
            query(
                "sum by (service, reason) (rate(stagewatch_failed_scrapes_total[$__rate_interval]))",
                "{{service}} {{reason}}",
            ),
            text="Empty while all engines answer.",
        ),
        lines(
            "Exports given up",
            "cps",
            query(
                "sum by (service, reason) (rate(stagewatch_exports_dropped_total[$__rate_interval]))",
                "{{service}} {{reason}}",
            ),
            text="Empty while none was.",
        ),
    ]
