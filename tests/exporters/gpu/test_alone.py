"""The sidecar needs what `[gpu]` installs and nothing of the server, nor of the cloud."""

import os
import subprocess
import sys

from tests.paths import ROOT

SERVER_ONLY = (
    *("boto3", "botocore", "cramjam", "dash", "fastapi", "google.rpc", "grpc", "orjson", "plotly"),
    *("pyarrow", "sqlalchemy", "starlette", "uvicorn", "clickhouse_connect", "psycopg"),
)
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({SERVER_ONLY!r}))\n"


def without_the_server(code, fake, *words):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *words],
        env={**os.environ, **fake.env()},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_one_reading_works_without_the_server(fake, tmp_path):
    file = tmp_path / "stagewatch.yaml"
    file.write_text("exporters: {gpu: {node: n1}}")
    code = "from stagewatch.__main__ import main; sys.exit(main(sys.argv[1:]))"

    run = without_the_server(code, fake, "exporter", "gpu", "--config", str(file), "--once")

    assert run.returncode == 0, run.stderr
    assert "8 GPUs" in run.stdout


def test_and_so_does_all_that_runs_for_long(fake):
    code = "import exporters.gpu.__main__, exporters.gpu.sending; print('loaded')"

    assert without_the_server(code, fake).stdout == "loaded\n"
