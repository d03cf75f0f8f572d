"""A certificate of a test's own, made by the openssl command for the names a test uses."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["Certificate", "made"]

_NAMES = "DNS:localhost,DNS:probe.test,IP:127.0.0.1,IP:::1,IP:10.9.0.1,IP:10.9.0.2"


@dataclass(frozen=True)
class Certificate:
    file: Path
    key: Path


def made(folder: Path, names: str = _NAMES) -> Certificate:
    """Signed by itself, good for a day."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command to make a certificate with")
    own = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "1", "-subj", "/CN=probe test", "-addext"]
    command += [f"subjectAltName={names}", "-keyout", str(own.key), "-out", str(own.file)]
    subprocess.run(command, check=True, capture_output=True)
    return own
