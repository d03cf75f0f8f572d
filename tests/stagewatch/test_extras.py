"""A missing extra is one line with the way out."""

import re
import tomllib
from importlib.metadata import packages_distributions

import pytest

from domain.errors import ConfigError
from stagewatch import extras
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def distributions(extra):
    """What one extra names itself, without what it includes."""
    names = {normal(re.match(r"[A-Za-z0-9_.-]+", told)[0]) for told in EXTRAS[extra]}
    return names - {"stagewatch"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def modules_of():
    """Every module that is installed here, and which distributions bring it."""
    return {
        module: {normal(owner) for owner in owners}
        for module, owners in packages_distributions().items()
        if not module.startswith("_")
    }


@pytest.mark.parametrize(
    "extra", sorted(set(EXTRAS) - {"all", "kubernetes", "server", "telemetry"})
)
def test_a_module_of_a_sidecar_is_brought_by_the_extra_that_is_named(extra):
    told = {module for module, owner in extras.EXTRA_OF.items() if owner == extra}
    brought = {
        module
        for module, owners in modules_of().items()
        if owners & distributions(extra) and module.isidentifier()
    }

    assert told - {"botocore", "google"} <= brought, "the table names what the extra does not bring"
    assert brought - {"example", "psycopg_binary"} <= told


def test_what_is_not_in_the_table_is_the_servers():
    error = extras.missing(ModuleNotFoundError("no", name="sqlalchemy.orm"), "up")

    assert str(error) == (
        "stagewatch up: sqlalchemy is not installed. Run: pip install 'stagewatch[server]'."
    )


@pytest.mark.parametrize("name", ["collector.query", "stagewatch.gone", None])
def test_a_module_of_our_own_that_is_missing_is_a_fault_and_stays_one(name):
    with pytest.raises(ModuleNotFoundError):
        extras.missing(ModuleNotFoundError("no", name=name), "up")


def test_extras_hold_what_they_say_and_all_holds_them_all():
    assert isinstance(extras.missing(ModuleNotFoundError(name="boto3"), "x"), ConfigError)
    included = set(re.findall(r"stagewatch\[([a-z,]+)\]", EXTRAS["all"][0])[0].split(","))
    assert included == set(EXTRAS) - {"all", "exporter"}
    assert all("stagewatch[exporter]" in EXTRAS[name] for name in ("aws", "gpu", "server"))
    assert "boto3" not in distributions("gpu") | distributions("server")
