"""The runbook: for each alert that is raised here, what it means, where to look and what to do.

The pages show it under `/runbook`, the reference prints it; notifications link to its anchors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from domain.condition import ConditionKind

__all__ = ["ENTRIES", "PATH", "RECEIVER", "Entry", "address", "anchor_of", "rule_entries"]

PATH = "/runbook"
RECEIVER = "receiver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One alert: what it means, where to look, in this order, and what ends it."""

    anchor: str
    title: str
    means: str
    steps: tuple[str, ...]
    ends: str = ""


ENTRIES: tuple[Entry, ...] = (
    Entry(
        anchor="page",
        title="A promise pages",
        means="So many requests or minutes were bad, in a long and in a short window, that the "
        "budget of the whole period would soon be gone. In an exported rule: Slo…Page.",
        steps=(
            "Acknowledge it, so that nobody else is called.",
            "Read the sentence: which stage carries what grew, and whether one replica stands out.",
            (
                "On the alert's page look at Where: one replica is drained and restarted; a whole pool "
                "wants capacity, or less load."
            ),
            "Look at What changed: take back what came within the hour before.",
            (
                "Ask `stagewatch diagnose --service NAME` for the causes, and for what was not "
                "evaluated."
            ),
        ),
        ends="It ends when the short window is below 90 % of its limit (clear). It does not end "
        "because data stop: then it says stale.",
    ),
    Entry(
        anchor="ticket",
        title="A promise has a ticket",
        means="The budget is spent faster than it grows, too slowly to wake anybody. In an exported "
        "rule: Slo…Ticket.",
        steps=(
            "Open the promise's page: since when does the burn stand above its limit?",
            "Compare with deploys and traffic on the same axis.",
            "Do what the page's runbook says, by day; or change the promise, if it was never kept.",
        ),
        ends="As a page: when the short window is quiet.",
    ),
    Entry(
        anchor="no-data",
        title="A promise is not observed",
        means="Nobody was looking for longer than no_data_after: whether the promise is kept is "
        "unknown. No traffic is something else, and does not raise this. In an exported rule: "
        "Slo…NoData.",
        steps=(
            "Open Status: which sidecar, engine or collector is silent, and since when?",
            "On the sidecar's machine: is the process there, and does its own /metrics answer?",
            "Does it reach the collector? `stagewatch_spooled_bytes` grows while it does not.",
            "Was the service renamed or taken away? Then end the promise.",
        ),
        ends="It ends with the first minute that somebody observed.",
    ),
    Entry(
        anchor="budget-50",
        title="Half of a budget is left",
        means="A note, no alarm: 50 % of what the period allows is spent.",
        steps=(
            "Look at the promise's page: was it one incident, or a steady leak?",
            "A steady leak is worth a ticket of its own.",
        ),
        ends="It ends when more than half is left again.",
    ),
    Entry(
        anchor="budget-25",
        title="A quarter of a budget is left",
        means="A note: 75 % of what the period allows is spent.",
        steps=("Put off risky deploys of this service.", "See when the budget will be gone."),
        ends="It ends when more than a quarter is left again.",
    ),
    Entry(
        anchor="budget-0",
        title="A budget is spent",
        means="The promise of this period is broken; what is left is negative.",
        steps=(
            "Say so to whom it was promised.",
            "Stop changes that are not repairs until it is back.",
            "Was it planned work? Declare maintenance next time, or reset the budget with a reason.",
        ),
        ends="It ends when something is left: the bad minutes age out, the period begins anew, or "
        "somebody resets it.",
    ),
    Entry(
        anchor="engine-stalled",
        title="Engine stalled",
        means="The engine has requests, and neither steps nor tokens move. Health checks stay "
        "green.",
        steps=(
            "Take the replica out of rotation.",
            "Save the process's stacks if you can (`py-spy dump --pid PID`), then restart it.",
            "Look at its GPUs: what they say stands beside the sentence (XID, utilisation).",
            "The queue right after it is a consequence; do not scale for it.",
        ),
        ends="It ends when something moves. If the engine's page vanishes meanwhile it says stale.",
    ),
    Entry(
        anchor="target-down",
        title="Target down",
        means="A sidecar asks its engine for /metrics and gets no answer, or not the right one.",
        steps=(
            "The reason stands in brackets: refused, timeout, http_404, unknown_page.",
            "From the sidecar's machine: does the address answer?",
            "Refused: does the process live? Read its last log lines: out of memory, XID, SIGTERM.",
            "404, unknown_page, html: something else answers there; look at the address.",
        ),
        ends="It ends with the first page that is read.",
    ),
    Entry(
        anchor="silent",
        title="Silent",
        means="Nothing has been heard of a replica: neither well nor down. No alert by itself; the "
        "promises that rest on it become not observed.",
        steps=(
            "Does its sidecar run? Does it reach the collector?",
            "Was it scaled down on purpose? Then it is forgotten after a day.",
        ),
    ),
    Entry(
        anchor="schema-drift",
        title="Schema drift",
        means="An engine's page lost families that it had: usually an update.",
        steps=(
            "Compare the engine's version with the one before.",
            "`stagewatch exporter engine --once --target URL` says what the page can still tell.",
            "Update the sidecar.",
        ),
    ),
    Entry(
        anchor="suspect-numbers",
        title="Suspect numbers",
        means="An engine's page says what cannot be true; those numbers are not used.",
        steps=("See which families they are; do not trust them elsewhere either.", "Update it."),
    ),
    Entry(
        anchor="exports-lost",
        title="Exports lost",
        means="A sidecar gave readings up before the collector took them: counts of that time are "
        "too low.",
        steps=(
            (
                "The reason stands with `stagewatch_exports_dropped_total`: spool_full, too_old, "
                "refused, corrupt."
            ),
            "Full or old: why was the collector away so long? A larger spool_bytes or spool_age_s.",
            "Refused: the collector's log says what was wrong with them.",
        ),
    ),
    Entry(
        anchor="not-reported",
        title="Not reported",
        means="An engine's page leaves out what the charts would need. Nothing is broken.",
        steps=("Let the engine send spans; they carry it.",),
    ),
    Entry(
        anchor=RECEIVER,
        title="A receiver could not be told",
        means="Somebody was to hear of an alert and could not be reached for five minutes "
        "(alarm_after_s), or refused it. You hear of it instead.",
        steps=(
            "Take care of the alert itself: its sentence is quoted.",
            "`stagewatch alerts test-receiver NAME` says what the other side answers, and how fast.",
            "401, 403, 404: a key was changed. Timeouts: the network, or their status page.",
            "`stagewatch alerts deliveries` lists each attempt.",
        ),
        ends="It ends when the receiver has taken something again.",
    ),
    Entry(
        anchor="heartbeat",
        title="The heartbeat is missing",
        means="Raised by whoever you let listen to alerts.heartbeat: for twice the interval no "
        "evaluation went through. Until then nobody would be paged by Stagewatch.",
        steps=(
            "Does the process run? `/readyz` and the log say what keeps it.",
            "Is its disk full, or its PostgreSQL away?",
            "Of two processes: does one lead? `stagewatch_alerts_leading` is 1 on one of them.",
        ),
        ends="Minutes that were missed are made up for as soon as it runs.",
    ),
)
"""Rules of the diagnosis stand beside these: `rule_entries`."""

_CONDITIONS = tuple(kind.value.replace(" ", "-") for kind in ConditionKind)


def rule_entries() -> Iterator[tuple[str, Entry]]:
    """One entry for each rule of the diagnosis, with its family."""
    from alerts.diagnosis.catalogue import RULES  # noqa: PLC0415 - notices must not pay for them

    for rule in RULES:
        steps = [f"{rule.action[:1].upper()}{rule.action[1:]}."]
        steps += [f"Not so when {rule.against}."] if rule.against else []
        yield (
            rule.id[:1],
            Entry(
                anchor=rule.id.lower(),
                title=f"{rule.title[:1].upper()}{rule.title[1:]}",
                means=f"The rule speaks when {rule.condition}.",
                steps=tuple(steps),
            ),
        )


def anchor_of(tier: str, objective_id: str) -> str:
    """Of an alert; one on an engine carries its condition in its id."""
    if tier != "condition":
        return tier
    found = [name for name in _CONDITIONS if objective_id.startswith(name)]
    return max(found, key=len, default="engine-stalled")


def address(pages_url: str, anchor: str) -> str:
    """Where the pages show it."""
    return f"{pages_url.rstrip('/')}{PATH}#{anchor}"
