"""What a part of the product needs beside the core, and the `pip` line that brings it."""

from domain.errors import ConfigError

__all__ = ["EXTRA_OF", "missing"]

OURS = frozenset(
    ("alerts", "collector", "dashboard", "domain", "exporters", "review", "stagewatch")
)
EXTRA_OF = {
    "apprise": "apprise",
    "boto3": "aws",
    "botocore": "aws",
    "clickhouse_connect": "clickhouse",
    "google": "exporter",
    "h11": "exporter",
    "httpx": "exporter",
    "numba": "review",
    "opentelemetry": "exporter",
    "prometheus_client": "exporter",
    "psycopg": "postgres",
    "pynvml": "gpu",
}
"""The smallest extra with a module. Whatever stands here not at all is the server's."""


_TELEMETRY = "opentelemetry.exporter"


def missing(error: ModuleNotFoundError, command: str) -> ConfigError:
    """What to tell who runs a command whose extra is not installed; a fault of ours is raised again."""
    module = (error.name or "").partition(".")[0]
    if not module or module in OURS:
        raise error
    extra = EXTRA_OF.get(module, "server")
    if (error.name or "").startswith(_TELEMETRY):
        extra = "telemetry"
    return ConfigError(
        f"{module} is not installed",
        where=f"stagewatch {command}",
        remedy=f"Run: pip install 'stagewatch[{extra}]'.",
    )
