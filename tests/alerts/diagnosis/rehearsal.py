"""The demo's fleet with an incident, simulated at speed into a real store: spans, and pages as scraped."""

from exporters.engine.otlp import export_request as page_export
from exporters.engine.pages import readings
from stagewatch.demo.fleet import Fleet
from stagewatch.demo.incidents import incident
from stagewatch.demo.settings import FleetSettings
from stagewatch.demo.spans import EngineSpan, export_request
from tests.collector.storing import writing

__all__ = ["SERVICES", "STARTED_S", "rehearsal_of"]

STARTED_S = 1_800_000_000
SERVICES = {"replica-throttled": "code"}
_SCRAPE_S = 10
_LONGER = {"replica-throttled": (180, 240, 1.5), "queue": (120, 70, 1.2)}


def rehearsal_of(folder, name):
    """When it ended. As short as its rule's minimum of requests allows, on a fleet with little load."""
    start_s, lasts_s, load = _LONGER.get(name, (120, 110, 0.9))
    return _rehearse(
        folder,
        name,
        service=SERVICES.get(name, "assistant"),
        start_s=start_s,
        until_s=start_s + lasts_s,
        load=load,
    )


def _rehearse(folder, name, *, service, start_s, until_s, load):
    """What one service sends: every span, a page every ten seconds; the incident lasts to the end."""
    settings = FleetSettings(
        incident=name, incident_start_s=start_s, incident_duration_s=9e5, load=load
    )
    fleet = Fleet(settings, started_at_ns=STARTED_S * 10**9, incident=incident(name))
    watched = {n: r for n, r in fleet.replicas.items() if r.about.service == service}
    pages = {replica: [] for replica in watched}
    with writing(folder, now=lambda: float(STARTED_S + fleet.now_s + 2)) as writer:
        for now_s in range(_SCRAPE_S, until_s + 1, _SCRAPE_S):
            fleet.advance(now_s)
            writer.traces(export_request(s for s in fleet.drain() if _service(s) == service))
            for replica, simulated in watched.items():
                pages[replica].append((simulated.render(), (STARTED_S + now_s) * 10**9))
        for replica, told in pages.items():
            for reading in readings(told, _target(fleet.replicas[replica].about)):
                writer.metrics(page_export(reading))
        writer.settle()
    return STARTED_S + until_s


def _service(span):
    return (span.replica if isinstance(span, EngineSpan) else span.client).service


def _target(about):
    names = ("service", "role", "pool", "region", "zone", "use_case")
    return {"replica": about.name, **{name: getattr(about, name) for name in names}}
