"""What the real bindings get wrong, shown on the stand-in: why `exporters.gpu.nvml` is as it is."""

import threading
import time

import pytest

from exporters.gpu.nvml import FieldBatch, Unavailable
from tests.exporters.gpu.watching import loaded
from tests.fake_nvml.library import MIB, FakeNvml, needs_gcc

pytestmark = needs_gcc


@pytest.fixture
def fake(tmp_path):
    return FakeNvml(tmp_path)


@pytest.fixture
def nvml(fake):
    with loaded(fake) as found:
        yield found


def handle_of(nvml, index=0):
    return nvml.ask("nvmlDeviceGetHandleByIndex", index)


def test_a_name_that_is_no_text_ends_the_bindings_and_not_us(fake, nvml):
    fake.set(0, name="hex:f8e94e")

    with pytest.raises(UnicodeDecodeError):
        nvml.raw.nvmlDeviceGetName(handle_of(nvml))
    assert nvml.text("nvmlDeviceGetName", handle_of(nvml)) == "\ufffd\ufffdN"


def test_their_errors_cannot_be_compared_with_nothing(nvml):
    error = nvml.raw.NVMLError(3)

    with pytest.raises(AttributeError):
        assert error == None  # noqa: E711
    with pytest.raises(TypeError):
        hash(error)


def test_version_2_of_memory_has_no_name_of_its_own(nvml):
    assert not hasattr(nvml.raw, "nvmlDeviceGetMemoryInfo_v2")
    with pytest.raises(Unavailable):
        nvml.ask("nvmlDeviceGetMemoryInfo", handle_of(nvml), 2)


def test_version_1_counts_what_is_reserved_as_used(nvml):
    first = nvml.ask("nvmlDeviceGetMemoryInfo", handle_of(nvml))
    second = nvml.ask("nvmlDeviceGetMemoryInfo", handle_of(nvml), nvml.raw.nvmlMemory_v2)

    assert first.used == second.used + second.reserved == 551 * MIB


def test_a_call_for_field_values_succeeds_while_single_fields_fail(fake, nvml):
    fake.set(0, **{"field.271.err": 3})
    batch = FieldBatch(nvml, [(82, 0), (193, 0), (271, 0)])

    assert batch.read(handle_of(nvml)) == [43, -8, "not_supported"]


def test_the_early_535_record_garbles_all_but_the_first_process(fake, nvml):
    fake.set(procs_wide=1)
    fake.set(0, procs=f"4100:{8192 * MIB}:0:0,4200:{9216 * MIB}:0:0")

    first, second = nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle_of(nvml))

    assert (first.pid, first.usedGpuMemory) == (4100, 8192 * MIB)
    assert second.pid == 0


def test_a_call_that_hangs_blocks_only_its_thread(fake, nvml):
    fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1})
    done = threading.Event()
    hung = handle_of(nvml, 7)

    def ask():
        nvml.ask("nvmlDeviceGetPowerUsage", hung)
        done.set()

    threading.Thread(target=ask, daemon=True).start()
    began_s = time.monotonic()
    nvml.ask("nvmlDeviceGetPowerUsage", handle_of(nvml))

    assert time.monotonic() - began_s < 0.5
    assert not done.wait(0.1)
    fake.set(7, **{"latency_ms.DeviceGetPowerUsage": None})
    assert done.wait(5)


def test_a_mig_handle_answers_for_itself_and_not_for_its_board(fake, nvml):
    fake.enable_mig(2)
    instance = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle_of(nvml, 2), 3)

    assert nvml.text("nvmlDeviceGetUUID", instance) == fake.mig_uuid(2, 3)
    with pytest.raises(Unavailable):
        nvml.ask("nvmlDeviceGetPowerUsage", instance)


def test_a_reloaded_driver_knows_no_handle_of_before(fake, nvml):
    handle = handle_of(nvml)
    fake.set(epoch=1)

    with pytest.raises(Unavailable, match="unknown_error"):
        nvml.ask("nvmlDeviceGetPowerUsage", handle)


def test_energy_and_throttle_time_go_on_by_themselves(fake, nvml):
    fake.set(0, power_mw=650_000, reasons=0x4)
    batch = FieldBatch(nvml, [(83, 0), (74, 0), (270, 0)])
    before = batch.read(handle_of(nvml))
    time.sleep(0.1)
    after = batch.read(handle_of(nvml))

    assert 60_000 < after[0] - before[0] < 200_000  # 650 W for 0.1 s and a little: mJ
    assert after[1] - before[1] > 8e7  # ns
    assert after[2] == before[2]
