"""Published outputs of real boards, told again by the stand-in: we read what other tools read there.

The captures are public, lie beside the tree and are never copied into it.
"""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from exporters.gpu.board import Board
from tests.exporters.gpu.watching import board, loaded, samples
from tests.fake_nvml.library import MIB
from tests.paths import SHARED

GPU = SHARED / "data/gpu"
pytestmark = pytest.mark.skipif(not GPU.exists(), reason="the public GPU captures are not here")
EXPORTER = sorted(GPU.glob("nvidia_gpu_exporter/*.metrics"))
TEXTS = sorted(GPU.glob("nvidia_gpu_exporter/*.txt"))
PAGES = sorted(GPU.glob("run-ai/*.ini"))
XML = sorted(GPU.glob("telegraf/*.xml"))

TOLD = {  # their metric: the stand-in's key, its factor, our key
    "utilization_gpu_ratio": ("util.gpu", 100, "gpu_busy"),
    "utilization_memory_ratio": ("util.memory", 100, "gpu_memory_busy"),
    "memory_total_bytes": ("mem.total", 1, "gpu_memory_total"),
    "memory_reserved_bytes": ("mem.reserved", 1, "gpu_memory_reserved"),
    "memory_used_bytes": ("mem.used", 1, "gpu_memory_used"),
    "clocks_current_sm_clock_hz": ("clock.sm", 1e-6, "gpu_sm_clock"),
    "clocks_current_memory_clock_hz": ("clock.mem", 1e-6, "gpu_memory_clock"),
    "clocks_max_sm_clock_hz": ("clock_max.sm", 1e-6, "gpu_sm_clock_max"),
    "clocks_event_reasons_active": ("reasons", 1, None),
    "power_draw_watts": ("power_mw", 1000, "gpu_power"),
    "enforced_power_limit_watts": ("power_limit_mw", 1000, "gpu_power_limit"),
    "temperature_gpu": ("temp.gpu", 1, "gpu_temperature"),
    "temperature_memory": ("temp.mem", 1, "gpu_memory_temperature"),
    "temperature_gpu_tlimit": ("temp.margin", 1, "gpu_thermal_margin"),
    "pcie_link_gen_current": ("pcie.gen", 1, "gpu_pcie_generation"),
    "pcie_link_width_current": ("pcie.width", 1, "gpu_pcie_width"),
    "fabric_state": ("fabric.state", 1, "gpu_fabric_state"),
    "gpu_recovery_action": ("field.230", 1, "gpu_recovery_action"),
    "remapped_rows_failure": ("remap.failure", 1, "gpu_row_remap_failure"),
    "ecc_errors_uncorrected_volatile_total": (
        "ecc.volatile.uncorrected",
        1,
        "gpu_ecc_uncorrected",
    ),
    "mig_mode_current": ("mig.mode", 1, None),
    "pstate": ("pstate", 1, "gpu_performance_state"),
}


def replayed(boards, found):
    """A board that says what was recorded, and nothing that was not."""
    fake = boards("h200", 1)
    absent = {key: None for name, (key, _, _) in TOLD.items() if name not in found}
    fake.set(0, **absent)
    fake.set(0, **{TOLD[name][0]: value * TOLD[name][1] for name, value in found.items()})
    return fake


def test_every_capture_is_used():
    assert (len(EXPORTER), len(PAGES), len(XML)) == (6, 5, 3)


@pytest.mark.parametrize("path", EXPORTER, ids=lambda path: path.stem[13:])
def test_a_recorded_hopper_is_read_as_it_was(boards, path):
    page = {name: value for (name, _), value in samples(path.read_text()).items()}
    found = {name: page[f"nvidia_smi_{name}"] for name in TOLD if f"nvidia_smi_{name}" in page}

    with board(replayed(boards, found)) as one:
        told = one.read()

    assert not told["rejected"]
    for name, value in found.items():
        ours = TOLD[name][2]
        if ours is not None:
            assert told["levels"][ours] == pytest.approx(value, rel=1e-6, abs=1e-3), name
    missing = {TOLD[name][2] for name in TOLD if name not in found} - {None}
    assert missing.isdisjoint(told["levels"])


@pytest.mark.parametrize("path", EXPORTER, ids=lambda path: path.stem[13:])
def test_a_loaded_board_shows_why_utilisation_proves_no_work(path):
    page = {name: value for (name, _), value in samples(path.read_text()).items()}
    load = path.name.endswith("load.metrics")
    mig = page["nvidia_smi_mig_mode_current"] == 1

    assert ("nvidia_smi_utilization_gpu_ratio" in page) is not mig
    if load and not mig:
        assert page["nvidia_smi_utilization_gpu_ratio"] == 1
        assert page["nvidia_smi_utilization_memory_ratio"] <= 0.11


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem[13:])
def test_recorded_memory_is_reserved_plus_used_plus_free(path):
    text = path.read_text()
    blocks = re.findall(
        r"FB Memory Usage\s+Total\s+: (\d+) MiB\s+Reserved\s+: (\d+) MiB"
        r"\s+Used\s+: (\d+) MiB\s+Free\s+: (\d+) MiB",
        text,
    )

    assert blocks
    for total, *parts in blocks:
        assert sum(map(int, parts)) == pytest.approx(int(total), abs=2)


def number(text):
    found = re.match(r"-?[\d.]+", text or "")
    return float(found.group()) if found else None


def from_xml(path):
    """What nvidia-smi says of the first board, by the stand-in's keys."""
    gpu = ET.parse(path).getroot().find("gpu")  # noqa: S314 - a file that we keep

    def at(*places):
        found = (gpu.findtext(place) for place in places)
        return next((text.strip() for text in found if text and text.strip()), None)

    power = at("gpu_power_readings/power_draw", "power_readings/power_draw")
    values = {
        "name": at("product_name"),
        "util.gpu": number(at("utilization/gpu_util")),
        "util.memory": number(at("utilization/memory_util")),
        "temp.gpu": number(at("temperature/gpu_temp")),
        "temp.mem": number(at("temperature/memory_temp")),
        "power_mw": number(power) * 1000,
        "clock.sm": number(at("clocks/sm_clock")),
        "clock.mem": number(at("clocks/mem_clock")),
    }
    for part in ("total", "reserved", "used"):
        values[f"mem.{part}"] = number(at(f"fb_memory_usage/{part}")) * MIB
    values["mig.mode"] = 1 if at("mig_mode/current_mig") == "Enabled" else None
    return values, gpu.findall("mig_devices/mig_device")


@pytest.mark.parametrize("path", XML, ids=lambda path: path.stem)
def test_a_recorded_older_board_is_read_as_it_was(boards, path):
    values, instances = from_xml(path)
    fake = boards("a100", 1)
    if instances:
        sizes = [number(each.findtext("fb_memory_usage/total")) for each in instances]
        fake.enable_mig(0, tuple(("1g.20gb", 14, int(size)) for size in sizes))
    fake.set(0, **values)

    with board(fake) as one:
        told = one.read()

    levels = told["levels"]
    assert levels["gpu_power"] == pytest.approx(values["power_mw"] / 1000)
    assert levels["gpu_memory_used"] == values["mem.used"]
    assert levels["gpu_sm_clock"] == values["clock.sm"] * 1e6
    assert ("gpu_memory_temperature" in levels) is (values["temp.mem"] is not None)
    assert ("gpu_busy" in levels) is (values["util.gpu"] is not None)
    assert [each["levels"]["gpu_memory_total"] for each in told["instances"]] == [
        19_968 * MIB for _ in instances
    ]


def dcgm(path):
    lines = [line for line in path.read_text().splitlines() if line.startswith(("#", "DCGM"))]
    return [
        (name, dict(labels), value) for (name, labels), value in samples("\n".join(lines)).items()
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_boards_on_a_dcgm_page_are_as_many_for_us_as_there_are(boards, path):
    """However often their page repeats a board, ours has one power and one energy for it."""
    page = dcgm(path)
    uuids = sorted({labels["UUID"] for _, labels, _ in page})
    fake = boards("a100", len(uuids))
    for place, uuid in enumerate(uuids):
        own = [(name, labels, value) for name, labels, value in page if labels["UUID"] == uuid]
        gis = sorted({int(labels["GPU_I_ID"]) for _, labels, _ in own if labels.get("GPU_I_ID")})
        if gis:
            fake.enable_mig(place, tuple(("1g.5gb", 14, 4864) for _ in gis))
            fake.set(place, **{f"mig{at}.gi": gi for at, gi in enumerate(gis)})
        energies = {v for name, _, v in own if name.startswith("DCGM_FI_DEV_TOTAL_ENERGY")}
        powers = [v for name, _, v in own if name == "DCGM_FI_DEV_POWER_USAGE"]
        fake.set(place, uuid=uuid, energy_mj=max(energies), power_mw=powers[0] * 1000)

        with loaded(fake) as nvml:
            told = Board(nvml, uuid).read()

        assert len(energies) == 1
        assert told["levels"]["gpu_power"] == pytest.approx(powers[0])
        assert told["totals"]["gpu_energy"] == pytest.approx(max(energies) / 1000, rel=1e-3)
        assert [each["gi"] for each in told["instances"]] == gis
        assert all("gpu_power" not in each["levels"] for each in told["instances"])


def test_condensed_profiles_add_up_as_the_captures_do():
    for record in json.loads((GPU / "profiles.json").read_text()):
        reserved = record["mem_reserved_mib"] or 0
        parts = reserved + record["mem_used_mib"] + record["mem_free_mib"]
        assert parts == pytest.approx(record["mem_total_mib"], abs=3)
