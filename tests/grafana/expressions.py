"""The expressions of a dashboard as Prometheus would be asked: what Grafana fills in is filled in."""

import json
import urllib.request
from urllib.parse import urlencode

from tests.paths import ROOT

__all__ = ["DASHBOARDS", "answer", "asked", "dashboards", "panels"]

DASHBOARDS = ROOT / "grafana" / "dashboards"
_FILLED = {
    "$__rate_interval": "20s",
    "$service": ".*",
    "$model": ".*",
    "$role": ".*",
    "$objective": ".*",
    "$gpu_uuid": ".*",
    "$replica": ".*",
    "$region": ".*",
}


def dashboards():
    return {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def panels(dashboard):
    """Every panel, also those inside a row."""
    for panel in dashboard["panels"]:
        yield from panel.get("panels") or ()
        if panel["type"] != "row":
            yield panel


def answer(prometheus, question, **parameters):
    """Without a client of its own for each of many questions, which costs more than the answers."""
    address = f"{prometheus.url}/api/v1/{question}?{urlencode(parameters)}"
    with urllib.request.urlopen(address, timeout=20) as found:  # noqa: S310 - loopback
        return json.load(found)["data"]


def asked(expression):
    for name, value in _FILLED.items():
        expression = expression.replace(name, value)
    return expression
