"""All dashboards, as the JSON that Grafana reads."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.endpoints import endpoints
from grafana.fleet import fleet
from grafana.gpus import gpus
from grafana.itself import itself
from grafana.objectives import objectives
from grafana.probes import probes
from grafana.service import service

__all__ = ["BOARDS", "written"]

BOARDS = {
    "fleet": fleet,
    "service": service,
    "objectives": objectives,
    "gpus": gpus,
    "endpoints": endpoints,
    "probes": probes,
    "itself": itself,
}


def written() -> Mapping[str, str]:
    """Each dashboard's file, by its name."""
    encoder = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False)
    return {f"{name}.json": encoder.encode(make().build()) + "\n" for name, make in BOARDS.items()}
