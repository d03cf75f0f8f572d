"""The exporter's own page: read by Prometheus's parsers, the same series every time."""

import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from domain.errors import ConfigError
from domain.metric import METRICS
from exporters.gpu.fleet import Fleet
from exporters.gpu.page import Page
from exporters.gpu.settings import GpuSettings
from exporters.gpu.web import serving
from tests.exporters.gpu.watching import samples, watching


def message(**changes):
    levels = {"gpu_power": 70.0, "gpu_throttled/hw_thermal": 1.0}
    told = {
        "kind": "gpu",
        "id": "GPU-a",
        "index": 0,
        "at_ns": 10**18,
        "begun_s": 100.0,
        "took_s": 0.004,
        "levels": levels,
        "totals": {"gpu_energy": 5000.0},
        "absent": {"gpu_activity": "not_supported"},
        "rejected": {},
        "pids": [],
        "instances": [],
    }
    return {**told, **changes}


@pytest.fixture
def page():
    """A page over a fleet with a driver."""
    written = Page()
    fleet = Fleet(deadline_s=3.0, changed=written.update)
    fleet.take({"kind": "driver", "up": True, "version": "580", "count": 1}, 99.0)
    return fleet, written


def named(fleet, **labels):
    fleet.take(
        {"kind": "identity", "id": "GPU-a", "index": 0, "labels": labels, "events": ""}, 99.0
    )


def test_a_value_is_shown_until_its_deadline_and_not_one_moment_longer(page):
    fleet, written = page
    fleet.take(message(), 100.0)

    shown = samples(written.text(fleet, 103.0))
    withdrawn = samples(written.text(fleet, 103.1))

    power = ("gpu_power_watts", frozenset({("gpu_uuid", "GPU-a")}))
    assert shown[power] == 70.0
    assert power not in withdrawn
    assert withdrawn["gpu_up", frozenset({("gpu_uuid", "GPU-a")})] == 0


def test_the_answer_of_a_hang_is_too_old_to_be_shown(page):
    fleet, written = page
    fleet.take(message(), 100.0)
    fleet.take(
        {"kind": "overdue", "id": "GPU-a", "index": 0, "call": "gpu_power", "begun_s": 101.0}, 104.5
    )
    fleet.take(message(begun_s=101.0, took_s=9.0), 110.0)

    found = samples(written.text(fleet, 110.0))

    down = {("gpu_uuid", "GPU-a"), ("reason", "hung"), ("call", "gpu_power")}
    assert found["gpu_down", frozenset(down)] == 1


def test_a_counter_never_falls_and_what_nobody_knows_is_left_out(page):
    fleet, written = page
    told = []
    for energy in (5000.0, 5600.0, 40.0, 90.0):
        fleet.take(message(totals={"gpu_energy": energy}), 100.0)
        found = samples(written.text(fleet, 100.0))
        told.append(found["gpu_energy_joules_total", frozenset({("gpu_uuid", "GPU-a")})])

    assert told == [5000.0, 5600.0, 5600.0, 5650.0]


def test_a_hostile_name_stays_inside_its_quotes(page):
    fleet, written = page
    named(fleet, name='A"} 1\n# TYPE x counter\nx 7\n\\')
    fleet.take(message(), 100.0)

    found = samples(written.text(fleet, 100.0))

    (info,) = [dict(labels) for name, labels in found if name == "gpu_info"]
    assert info["gpu_name"] == 'A"} 1\n# TYPE x counter\nx 7\n\\'
    assert not [name for name, _ in found if name == "x"]


def test_a_throttled_gpu_names_the_cause(page):
    fleet, written = page
    fleet.take(message(), 100.0)

    found = samples(written.text(fleet, 100.0))

    labels = frozenset({("gpu_uuid", "GPU-a"), ("cause", "hw_thermal")})
    assert found["gpu_throttled", labels] == 1


def test_utilisation_says_what_it_does_not_mean():
    assert "does not say how much is computed" in METRICS["gpu_busy"].help
    assert "no bandwidth" in METRICS["gpu_memory_busy"].help


def test_a_hundred_scrapes_have_the_same_series(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        watch.wait_for(lambda: watch.of(7, "gpu_sm_active_ratio") is not None)
        watch.wait_for(lambda: len(watch.all("gpu_sm_active_ratio")) == 8)

        assert len({frozenset(watch.now()) for _ in range(100)}) == 1


@pytest.mark.promtool
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is missing")
def test_prometheus_has_nothing_to_say_against_the_page(fake):
    fake.enable_mig(1)
    fake.event(3, 79)
    with watching(fake) as watch:
        watch.wait_until_read()
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=watch.text,
            capture_output=True,
            text=True,
            check=False,
        )

    assert checked.returncode == 0, checked.stderr
    assert not checked.stderr


def test_the_port_answers_what_it_knows_and_nothing_else():
    with serving("127.0.0.1", 0, lambda: "page\n", lambda: "no driver") as port:
        url = f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{url}/metrics?x=1") as found:  # noqa: S310 - loopback
            assert (found.status, found.read()) == (200, b"page\n")
        for path, status in (("/healthz", 503), ("/", 404)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url + path)  # noqa: S310 - loopback
            assert refused.value.code == status
            refused.value.close()


def test_a_port_that_is_taken_is_one_clear_error():
    with (
        serving("127.0.0.1", 0, str, str) as port,
        pytest.raises(ConfigError, match="listen_port"),
        serving("127.0.0.1", port, str, str),
    ):
        pass


def test_a_plan_without_a_page_has_no_port(fake):
    with watching(fake, listen_port=None) as watch:
        watch.wait_until_read()

        assert watch.sidecar.port is None
    assert GpuSettings().listen_port == 9466
