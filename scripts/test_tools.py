"""Brings what the tests drive from outside Python, from a browser to an Alertmanager.

As root on Debian it installs what is missing and says so; elsewhere it names what is missing and
the tests that need it skip, saying why. With CI set, anything missing is an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = {
    "chromium": ("chromium", "the pages in a real browser"),
    "gcc": ("gcc libc6-dev", "GPUs behind a stand-in for the driver's library"),
    "nginx": ("nginx-light", "a probe through a proxy that buffers"),
    "openssl": ("openssl", "a probe through TLS, with a certificate of the test's own"),
    "postgres": ("postgresql", "alerts of two processes on one PostgreSQL"),
    "prometheus": ("prometheus", "a real Prometheus that writes to us"),
    "prometheus-alertmanager": ("prometheus-alertmanager", "a real Alertmanager that we tell"),
    "systemd-analyze": ("systemd", "systemd's own check of our units"),
    "promtool": ("prometheus", "Prometheus's own check of our /metrics"),
}


def main() -> int:
    missing = _missing()
    apt = shutil.which("apt-get")
    if missing and apt and os.geteuid() == 0:
        packages = sorted({package for name in missing for package in TOOLS[name][0].split()})
        _say(f"installing Debian's {', '.join(packages)} for {_purposes(missing)}")
        quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "check": False}
        subprocess.run([apt, "update", "-qq"], **quiet)
        install = [apt, "install", "-y", "-qq", "--no-install-recommends", *packages]
        subprocess.run(install, stdout=subprocess.DEVNULL, **quiet)
        missing = _missing()
    for name in missing:
        package, purpose = TOOLS[name]
        _say(f"{name} is missing: {purpose} will not be tested. Debian: apt-get install {package}")
    return 1 if missing and os.environ.get("CI") else 0


def _missing() -> list[str]:
    return [name for name in TOOLS if not _found(name) or not _is_whole(name)]


def _found(name: str) -> bool:
    """Debian keeps PostgreSQL's programs out of the way, one folder for each version."""
    if name == "postgres":
        return any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return shutil.which(name) is not None


def _is_whole(name: str) -> bool:
    """A compiler without the headers of the C library compiles nothing of ours."""
    command = ["gcc", "-E", "-include", "stdio.h", "-x", "c", os.devnull]
    return name != "gcc" or subprocess.run(command, capture_output=True).returncode == 0


def _purposes(names: list[str]) -> str:
    return " and ".join(TOOLS[name][1] for name in names)


def _say(words: str) -> None:
    print(f"stagewatch: {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
