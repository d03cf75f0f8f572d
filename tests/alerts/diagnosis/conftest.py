"""Incidents of the demo in stores of their own, each simulated once."""

import pytest

from tests.alerts.diagnosis.rehearsal import rehearsal_of


@pytest.fixture(scope="session")
def rehearsed(tmp_path_factory):
    """Folder and end of an incident, simulated when it is first asked for."""
    made = {}

    def of(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = folder, rehearsal_of(folder, name)
        return made[name]

    return of
