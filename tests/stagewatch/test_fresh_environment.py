"""Every extra installs by itself and works, a sidecar without the server; from wheel and sources."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from functools import cache

import pytest
import yaml

from exporters.cloudwatch.aws import OLDEST
from stagewatch.release import VERSION
from tests.exporters.cloudwatch.polling import SAGEMAKER, VARIANT
from tests.exporters.fake_engine import answering, serving
from tests.exporters.test_command import PAGE
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.paths import ROOT

pytestmark = pytest.mark.slow

SERVER = ("cramjam", "dash", "fastapi", "grpc", "orjson", "plotly", "pyarrow", "sqlalchemy")
FLOOR = ".".join(map(str, OLDEST))
NOBODY = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def ran(*command, cwd=None, environment=None):
    """Without anything of this process's environment that could let it find our own tree."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=kept | NOBODY if environment is None else environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


def installed(*command, cwd=None):
    """It went well, or no package index can be reached from here and nothing is cached."""
    done = ran(*command, cwd=cwd, environment=os.environ)
    if re.search(r"Failed to fetch|dns error|error sending request", done.stderr):
        pytest.skip(f"no package index: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr


def locked():
    """The lock file's versions, without the hashes, which a constraint cannot have, and AWS's."""
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    pinned = [line.rstrip(" \\") for line in lines if re.match(r"[a-z0-9]", line)]
    return "\n".join(line for line in pinned if not re.match("boto|s3transfer", line))


def built(target, where, out):
    installed(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out, cwd=where)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheel):
    """Makes an environment of the wheel with one extra, once; `(its command, its python)`."""
    folder = tmp_path_factory.mktemp("fresh")
    constraints = folder / "constraints.txt"
    constraints.write_text(locked())

    @cache
    def made(extra, *more):
        python = folder / extra / "bin" / "python"
        uv = (sys.executable, "-m", "uv")
        installed(*uv, "venv", "-q", "--clear", "--python", sys.executable, folder / extra)
        wanted = (f"stagewatch[{extra}] @ {wheel.as_uri()}", *more)
        installed(*uv, "pip", "install", "-q", "--python", python, "-c", constraints, *wanted)
        return python.with_name("stagewatch"), python

    return made


def there(python, modules):
    code = (
        "import importlib.util as u, sys;"
        "print(*[name for name in sys.argv[1:] if u.find_spec(name)])"
    )
    done = ran(python, "-I", "-c", code, *modules)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def configured(folder, url=None):
    scope = {"account": "111122223333", "region": "us-east-1", "endpoints": [SAGEMAKER]}
    section = {"scopes": [scope | ({} if url is None else {"endpoint_url": url})]}
    (folder / "sw.yaml").write_text(yaml.safe_dump({"exporters": {"cloudwatch": section}}))
    return ("exporter", "cloudwatch", "--config", folder / "sw.yaml")


def test_the_exporter_alone_reads_an_engine_and_brings_no_server(environment, tmp_path):
    stagewatch, python = environment("exporter")

    with serving(answering(PAGE)) as engine:
        read = ran(
            stagewatch, "exporter", "engine", "--target", engine.url, "--service", "chat", "--once"
        )
    helped = ran(stagewatch, "exporter", "engine", "--help")
    planned = ran(stagewatch, *configured(tmp_path), "--plan")

    assert there(python, [*SERVER, "boto3", "pynvml"]) == set()
    assert (read.returncode, read.stderr) == (0, "")
    assert "n=144" in read.stdout
    assert "--listen-port" in helped.stdout
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "$/month" in planned.stdout


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (["exporter", "gpu", "--once"], "pip install 'stagewatch[gpu]'", 1),
        (["exporter", "cloudwatch", "--plan"], "no account to read. Give", 2),
        (["exporter", "cloudwatch", "--once", "--config"], "pip install 'stagewatch[aws]'", 2),
        (["up"], "is not installed. Run: pip install 'stagewatch[server]'", 2),
        (["demo"], "pip install 'stagewatch[server]'", 2),
        (["import", "spans.bin"], "pip install 'stagewatch[server]'", 2),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
def test_what_is_not_installed_is_one_line_with_the_way_out(
    environment, tmp_path, words, said, status
):
    stagewatch, _ = environment("exporter")
    configured(tmp_path)
    file = [tmp_path / "sw.yaml"] if words[-1] == "--config" else []

    done = ran(stagewatch, *words, *file, cwd=tmp_path)

    assert done.returncode == status
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_oldest_boto3_that_we_take_reads_cloudwatch_without_server_or_gpu(
    environment, tmp_path
):
    """CW13: the fake speaks JSON only, as every botocore from the floor on does."""
    stagewatch, python = environment("aws", f"boto3=={FLOOR}", f"botocore=={FLOOR}")

    with fake_cloudwatch() as fake:
        minute_s = int(fake.account.now()) // 60 * 60
        fake.account.put("AWS/SageMaker", "ModelLatency", VARIANT, minute_s - 120, [2e6, 3e6])
        once = ran(stagewatch, *configured(tmp_path, fake.url), "--once", cwd=tmp_path)

    assert there(python, [*SERVER, "pynvml", "boto3"]) == {"boto3"}
    assert (once.returncode, once.stderr) == (0, "")
    assert "ModelLatency" in once.stdout
    assert {target.partition(".")[0] for target, *_ in fake.account.requests} == {
        "GraniteServiceVersion20100801",
    }


@pytest.mark.parametrize(
    ("extra", "brings"),
    [
        ("server", {"dash", "fastapi", "grpc", "pyarrow", "sqlalchemy"}),
        ("kubernetes", {"grpc", "pynvml"}),
        ("review", {"numba"}),
        ("clickhouse", {"clickhouse_connect", "fastapi"}),
        ("postgres", {"psycopg", "fastapi"}),
        ("apprise", {"apprise", "fastapi"}),
    ],
)
def test_every_other_extra_brings_what_it_is_for_and_nothing_of_the_others(
    environment, tmp_path, extra, brings
):
    stagewatch, python = environment(extra)
    of_others = {"apprise", "boto3", "clickhouse_connect", "numba", "psycopg", "pynvml"} - brings

    version = ran(stagewatch, "--version", cwd=tmp_path)

    assert there(python, [*brings, *of_others]) == brings
    assert (version.returncode, version.stdout) == (0, f"stagewatch {VERSION}\n")


def test_the_server_alone_judges_a_promise(environment, tmp_path):
    stagewatch, _ = environment("server")
    (tmp_path / "slo.yaml").write_text("- p99 ttft <= 1.5s over 30d\n")

    judged = ran(stagewatch, "slo", "validate", "slo.yaml", cwd=tmp_path)

    assert (judged.returncode, judged.stderr) == (0, "")


def test_what_is_built_from_the_sources_is_the_same_and_holds_no_test(wheel, tmp_path):
    sources = built("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sources) as archive:
        archive.extractall(tmp_path / "from", filter="data")
    (folder,) = (tmp_path / "from").iterdir()
    again = built("wheel", folder, tmp_path / "again")

    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        names = set(first.namelist())
        assert names == set(second.namelist())
    assert {name.partition("/")[0] for name in names} == {
        *("alerts", "collector", "dashboard", "domain", "exporters", "review", "stagewatch"),
        f"stagewatch-{VERSION}.dist-info",
    }
    assert {"dashboard/assets/runbook.css", "stagewatch/demo/objectives.yaml"} <= names
    assert not (folder / "tests").exists()
