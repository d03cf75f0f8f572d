"""Makes .venv with the locked dependencies of one purpose: `environment.py server|dev`.

Standard library only: it runs before anything is installed. It does nothing when the environment
already holds what the lock file says.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST = (3, 11)


def main(purpose: str) -> int:
    if sys.version_info < OLDEST:
        return _fail(
            f"Python {sys.version.split()[0]} is too old",
            "Install Python 3.11 or newer, or say which: make PYTHON=python3.12 …",
        )
    lock = ROOT / "requirements" / f"{purpose}.txt"
    stamp = VENV / f"stagewatch-{purpose}-{_fingerprint(lock)}"
    if stamp.exists() and PYTHON.exists():
        return 0
    begun = time.monotonic()
    _say(f"making the environment in {VENV.relative_to(ROOT)} (once, one to two minutes) …")
    if not _has_pip() and not _create():
        return 1
    installed = _pip("-r", str(lock), "--require-hashes") and _pip(
        "--no-deps", "--no-build-isolation", "--editable", str(ROOT)
    )
    if not installed:
        return _fail(
            "the dependencies could not be installed (pip's words stand above)",
            "Check that this machine reaches a Python package index, then run make again.",
        )
    stamp.touch()
    _say(f"environment ready after {time.monotonic() - begun:.0f} s")
    return 0


def _fingerprint(lock: Path) -> str:
    both = lock.read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(both).hexdigest()[:16]


def _has_pip() -> bool:
    probe = [str(PYTHON), "-m", "pip", "--version"]
    return PYTHON.exists() and subprocess.run(probe, capture_output=True).returncode == 0


def _create() -> bool:
    """A virtual environment with pip; Debian keeps the parts for that in a package of its own."""
    shutil.rmtree(VENV, ignore_errors=True)
    if _venv():
        return True
    apt = shutil.which("apt-get")
    if apt and os.geteuid() == 0:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        _say(f"this Python has no ensurepip: installing Debian's {package}")
        subprocess.run([apt, "update", "-qq"], check=False)
        subprocess.run([apt, "install", "-y", "-qq", package], check=False)
        shutil.rmtree(VENV, ignore_errors=True)
        if _venv():
            return True
    _fail(
        "python3 -m venv does not work here",
        "Install it (Debian, Ubuntu: apt-get install python3-venv), then run make again.",
    )
    return False


def _venv() -> bool:
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True)
    return made.returncode == 0 and _has_pip()


def _pip(*arguments: str) -> bool:
    quiet = ["-qq", "--disable-pip-version-check", "--no-input"]
    command = [str(PYTHON), "-m", "pip", "install", *quiet, *arguments]
    return subprocess.run(command, env=os.environ | {"PYTHONWARNINGS": "ignore"}).returncode == 0


def _say(words: str) -> None:
    print(f"stagewatch: {words}", file=sys.stderr, flush=True)


def _fail(problem: str, remedy: str) -> int:
    _say(f"{problem}. {remedy}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
