"""Probes: what somebody outside would have seen."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard

from grafana.parts import board, heat, lines, query, row, stack, variable

__all__ = ["probes"]

_ONE = 'source="probe",replica=~"$replica"'
_BY = "replica"
_TARGET = "/probes?where=replica%3D{replica}"


def probes() -> dashboard.Dashboard:
    return board(
        "stagewatch-probes",
        "Stagewatch: probes",
        "A few requests a minute from outside, timed byte by byte.",
        [*_answers(), *_way(), *_cost()],
        variables=[variable("replica", 'stagewatch_up{source="probe"}', "Target")],
        page="/probes",
    )


def _mean(latency: str) -> str:
    name = f"stagewatch_{latency}_seconds"
    count = f'sum by ({_BY}) (rate({name}_count{{bound="low",{_ONE}}}[$__rate_interval]))'
    return (
        f'sum by ({_BY}) (rate({name}_sum{{bound="low",{_ONE}}}[$__rate_interval])) / ({count} > 0)'
    )


def _answers() -> Sequence[object]:
    buckets = f'stagewatch_ttft_seconds_bucket{{bound="high",{_ONE}}}'
    return [
        row("Answers"),
        lines(
            "Answers",
            "none",
            query(f"max by ({_BY}) (stagewatch_up{{{_ONE}}})", "{{replica}}"),
            text="1 when the last probe was answered well.",
            to=_TARGET,
        ),
        stack(
            "Probes by how they ended",
            "cpm",
            query(
                f"60 * sum by (reason) (rate(stagewatch_probes_total{{{_ONE}}}[$__rate_interval]))",
                "{{reason}}",
            ),
        ),
        heat("TTFT of every probe", f"sum by (le) (increase({buckets}[$__rate_interval]))"),
        lines(
            "Mean TTFT",
            "s",
            query(_mean("ttft"), "{{replica}}"),
            text="Of few probes; Stagewatch has the quantiles.",
            to=_TARGET,
        ),
    ]


def _way() -> Sequence[object]:
    return [
        row("The way there"),
        lines(
            "Mean TCP handshake",
            "s",
            query(_mean("connect"), "{{replica}}"),
            text="The least a round trip takes.",
            to=_TARGET,
        ),
        lines("Mean first byte", "s", query(_mean("first_byte"), "{{replica}}"), to=_TARGET),
        lines("Mean gap between tokens", "s", query(_mean("itl"), "{{replica}}"), to=_TARGET),
        lines(
            "Answers arrive in lumps",
            "none",
            query(
                f"max by ({_BY}, reason) (stagewatch_buffering{{{_ONE}}})", "{{replica}} {{reason}}"
            ),
            text="1: something between holds tokens back. Absent where it cannot be told.",
            to=_TARGET,
        ),
    ]


def _cost() -> Sequence[object]:
    return [
        row("What it costs"),
        lines(
            "Tokens",
            "cpm",
            query(
                f"60 * sum by ({_BY}) (rate(stagewatch_probe_tokens_total{{{_ONE}}}[$__rate_interval]))",
                "{{replica}}",
            ),
            to=_TARGET,
        ),
        lines(
            "Spent this month",
            "currencyUSD",
            query(f"max by ({_BY}) (stagewatch_probe_spending{{{_ONE}}})", "{{replica}}"),
            text="Absent where no price is known.",
            to=_TARGET,
        ),
    ]
