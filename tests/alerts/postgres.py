"""A PostgreSQL of the tests' own: a cluster in a temporary folder, on a free port of loopback."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["POSTGRES", "cluster"]

POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@contextmanager
def cluster():
    """The URL of an empty database; skips where no PostgreSQL is installed."""
    if POSTGRES is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="stagewatch-postgres-"))
    port = _free_port()
    try:
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        _as_postgres(
            "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8"
        )
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
        _as_postgres("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
        finally:
            _as_postgres("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_postgres(program, *arguments):
    command = [str(POSTGRES / program), *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
