"""Builds and drives the stand-in for libnvidia-ml.so.1 (fake_nvml.c) behind the real pynvml.

Profiles are shaped on published outputs of real boards; L4 has no full public output behind it.
What no hardware confirmed: the error of board calls on a MIG handle (`mig_handle_err`), the error
after a driver reload (`stale_err`), and whether a real hang blocks calls for other GPUs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

__all__ = ["MIB", "PROFILES", "FakeNvml", "needs_gcc"]

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


def _compiles():
    if sys.platform != "linux" or shutil.which("gcc") is None:
        return False
    command = ["gcc", "-E", "-include", "stdio.h", "-x", "c", os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_gcc = pytest.mark.skipif(
    not _compiles(),
    reason="gcc or the C library's headers are missing: Debian: apt-get install gcc libc6-dev",
)

_ANY = {
    "util.gpu": 0,
    "util.memory": 0,
    "temp.gpu": 33,
    "temp.mem": 43,
    "pstate": 0,
    "reasons": 1,
    "persistence": 1,
    "compute_mode": 0,
    "ecc.mode": 1,
    "energy_mj": 1_000_000,
    "ecc.volatile.corrected": 0,
    "ecc.volatile.uncorrected": 0,
    "ecc.aggregate.corrected": 0,
    "ecc.aggregate.uncorrected": 0,
    "remap.cor": 0,
    "remap.unc": 0,
    "remap.pending": 0,
    "remap.failure": 0,
    "pcie.gen": 5,
    "pcie.gen_max": 5,
    "pcie.width": 16,
    "pcie.width_max": 16,
    "pcie.replay": 0,
    "pcie.tx_kbs": 500,
    "pcie.rx_kbs": 700,
    "mem.used": 0,
}
_HOPPER = {
    **_ANY,
    "arch": 9,
    "cc": 9.0,
    "mig.mode": 0,
    "power_limit_mw": 700_000,
    "power_limit_default_mw": 700_000,
    "power_limit_min_mw": 200_000,
    "power_limit_max_mw": 700_000,
    "clock.sm": 1980,
    "clock.graphics": 1980,
    "clock_max.sm": 1980,
    "clock_max.graphics": 1980,
    "field.193": -8,
    "field.194": -2,
    "field.195": 0,
    "field.196": 0,
    "field.230": 0,
    "field.197": 5_000_000,
    "field.198": 7_000_000,
    "field.138": 1000,
    "field.139": 2000,
    "field.52": 0,
    "field.59": 0,
    "nvlink.count": 18,
    "fabric.state": 3,
    "gpm.2": 0,
    "gpm.3": 0,
    "gpm.5": 0,
    "gpm.10": 0,
}
PROFILES = {
    "h100": {
        **_HOPPER,
        "name": "NVIDIA H100 80GB HBM3",
        "mem.total": 81559 * MIB,
        "mem.reserved": 551 * MIB,
        "power_mw": 70_000,
        "clock.mem": 2619,
        "clock_max.mem": 2619,
        "temp.margin": 54,
    },
    "h200": {
        **_HOPPER,
        "name": "NVIDIA H200",
        "mem.total": 143771 * MIB,
        "mem.reserved": 614 * MIB,
        "power_mw": 76_000,
        "clock.mem": 3201,
        "clock_max.mem": 3201,
        "temp.margin": 50,
    },
    "a100": {
        **_ANY,
        "name": "NVIDIA A100-SXM4-80GB",
        "arch": 7,
        "cc": 8.0,
        "mem.total": 81920 * MIB,
        "mem.reserved": 618 * MIB,
        "mig.mode": 0,
        "power_mw": 63_000,
        "power_limit_mw": 400_000,
        "power_limit_default_mw": 400_000,
        "clock.sm": 1410,
        "clock.graphics": 1410,
        "clock.mem": 1593,
        "clock_max.sm": 1410,
        "clock_max.mem": 1593,
        "temp.shutdown": 92,
        "temp.slowdown": 89,
        "temp.mem_max": 95,
        "temp.gpu_max": 85,
        "pcie.gen": 4,
        "pcie.gen_max": 4,
        "nvlink.count": 12,
    },
    "l4": {
        **_ANY,
        "name": "NVIDIA L4",
        "arch": 8,
        "cc": 8.9,
        "mem.total": 23034 * MIB,
        "mem.reserved": 439 * MIB,
        "power_mw": 16_000,
        "power_limit_mw": 72_000,
        "clock.sm": 2040,
        "clock.graphics": 2040,
        "clock.mem": 6251,
        "clock_max.sm": 2040,
        "clock_max.mem": 6251,
        "pcie.gen": 4,
        "pcie.gen_max": 4,
    },
    "gb10": {
        key: value
        for key, value in {
            **_ANY,
            "name": "NVIDIA GB10",
            "arch": 10,
            "cc": 12.1,
            "power_mw": 11_170,
            "clock.sm": 2405,
            "clock.graphics": 2405,
        }.items()
        if not key.startswith(("mem.", "ecc.", "remap.", "temp.mem"))
    },
}


@lru_cache
def _built(*, old: bool) -> Path:
    """The library, compiled once for a run of tests. `old`: without what came after R470."""
    target = Path(tempfile.mkdtemp(prefix="fake-nvml-")) / "libnvidia-ml.so.1"
    flags = ["-O1", "-Wall", "-fPIC", "-shared", "-Wl,-soname,libnvidia-ml.so.1"]
    flags += ["-DFAKE_NVML_OLD"] if old else []
    source = str(HERE / "fake_nvml.c")
    subprocess.run(["gcc", *flags, "-o", str(target), source, "-lpthread"], check=True)
    return target


class FakeNvml:
    """Boards that a test describes. `set` acts at once on whoever has the library loaded."""

    def __init__(self, folder, profile="h100", count=8, *, old=False, **top):
        self.library = _built(old=old)
        self.state_file, self.events_file = Path(folder) / "nvml.state", Path(folder) / "events"
        self.events_file.touch()
        self.state = {"count": count, **top}
        for gpu in range(count):
            self.state[f"gpu{gpu}.uuid"] = self.uuid(gpu)
            self.state[f"gpu{gpu}.serial"] = f"165302{gpu:07d}"
            self.state.update(
                {f"gpu{gpu}.{key}": value for key, value in PROFILES[profile].items()}
            )
        self._write()

    @staticmethod
    def uuid(gpu):
        return f"GPU-{gpu:08x}-1111-2222-3333-{gpu:012x}"

    @staticmethod
    def mig_uuid(gpu, instance):
        return f"MIG-{gpu:08x}-aaaa-bbbb-cccc-{instance:012x}"

    def set(self, gpu=None, **changes):
        """Change values of one GPU, or of the library; None takes a value away."""
        prefix = "" if gpu is None else f"gpu{gpu}."
        for key, value in changes.items():
            if value is None:
                self.state.pop(prefix + key, None)
            else:
                self.state[prefix + key] = value
        self._write()

    def enable_mig(self, gpu, slices=(("1g.10gb", 16, 9856),) * 7, *, shared=False):
        """MIG on; `shared`: all compute instances lie in one GPU instance."""
        changes = {"mig.mode": 1}
        for place, (profile, multiprocessors, mebibytes) in enumerate(slices):
            changes |= {
                f"mig{place}.uuid": self.mig_uuid(gpu, place),
                f"mig{place}.name": f"{self.state[f'gpu{gpu}.name']} MIG {profile}",
                f"mig{place}.gi": 7 if shared else place + 7,
                f"mig{place}.ci": place if shared else 0,
                f"mig{place}.attr.sm": multiprocessors,
                f"mig{place}.mem.total": mebibytes * MIB,
                f"mig{place}.mem.used": 0,
                f"mig{place}.mem.reserved": 12 * MIB,
                f"mig{place}.gpm.2": 50,
            }
        self.set(gpu, **changes)

    def disable_mig(self, gpu):
        self.set(gpu, **dict.fromkeys(self._mig_keys(gpu)), **{"mig.mode": 0})

    def _mig_keys(self, gpu):
        prefix = f"gpu{gpu}."
        return [
            key.removeprefix(prefix)
            for key in self.state
            if key.startswith(f"{prefix}mig") and key != f"{prefix}mig.mode"
        ]

    def event(self, gpu, xid, type_=0x8):
        with self.events_file.open("a") as file:
            file.write(f"{gpu} {type_} {xid} {0xFFFFFFFF} {0xFFFFFFFF}\n")

    def env(self):
        """For a process of its own: the loader reads the path only when one starts."""
        path = f"{self.library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        return {
            "LD_LIBRARY_PATH": path,
            "FAKE_NVML_STATE": str(self.state_file),
            "FAKE_NVML_EVENTS": str(self.events_file),
        }

    def _write(self):
        new = self.state_file.with_suffix(".new")
        new.write_text("".join(f"{key} = {value}\n" for key, value in self.state.items()))
        new.replace(self.state_file)
