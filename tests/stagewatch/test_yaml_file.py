"""A YAML file that knows its lines and keeps no secrets."""

import pytest

from domain.errors import ConfigError
from stagewatch.yaml_file import read


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "stagewatch.yaml"
        path.write_text(text)
        return path

    return write


def test_every_key_knows_its_line(written):
    file = read(written("store:\n  data_dir: here\nreceivers:\n  - name: a\n    url: b\n"))

    assert file.values["receivers"] == [{"name": "a", "url": "b"}]
    assert file.where(("receivers", 0, "url")).endswith("stagewatch.yaml:5 (receivers.0.url)")


def test_a_key_that_is_not_there_is_placed_where_it_would_stand(written):
    file = read(written("collector:\n  host: here\n"))

    assert file.where(("collector", "port")).endswith(":1 (collector.port)")


def test_an_empty_file_says_nothing(written):
    assert read(written("# nothing yet\n")).values == {}


def test_a_secret_comes_from_the_environment(written):
    file = read(written("token: Bearer ${TOKEN}\n"), {"TOKEN": "s3cret"})

    assert file.values == {"token": "Bearer s3cret"}


def test_a_secret_comes_from_a_file(written, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")

    assert read(written(f"token: ${{file:{tmp_path}/token}}\n")).values == {"token": "s3cret"}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: ${MISSING}\n", 2, "MISSING"),
        ("a: 1\nb: ${file:/no/such/file}\n", 2, "/no/such/file"),
        ("a: 1\na: 2\n", 2, "twice"),
        ("a: &x [1]\nb: *x\n", 2, "alias"),
        ("a: !secret x\n", 1, "kind"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(written, text, line, says):
    with pytest.raises(ConfigError) as error:
        read(written(text), {})

    assert f":{line}" in str(error.value)
    assert says in str(error.value)


def test_a_tag_that_would_run_something_runs_nothing(written):
    file = read(written("a: !!python/object/apply:os.system [ls]\n"))

    assert file.values == {"a": ["ls"]}


def test_a_file_that_is_not_yaml_says_where(written):
    with pytest.raises(ConfigError, match="line 2"):
        read(written("a: 1\n b: [\n"))


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read(tmp_path / "none.yaml")


def test_a_huge_file_is_refused_before_it_is_parsed(written):
    with pytest.raises(ConfigError, match="below 1 MiB"):
        read(written("#" * 2_000_000))
