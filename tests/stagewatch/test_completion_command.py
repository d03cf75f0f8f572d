"""A shell completes our commands, options and choices."""

import shutil
import subprocess

import pytest

from stagewatch.__main__ import main, parser
from stagewatch.completion_command import completion


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "stagewatch.bash"
    path.write_text(completion(parser(), "bash"))
    return path


def offered(script, *words):
    """What bash offers for the last of these words."""
    ask = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        'function_name=$(complete -p stagewatch | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
        '"$function_name" stagewatch "${COMP_WORDS[COMP_CWORD]}" ""; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", ask, "bash", script, *words], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("stagewatch", "d"), {"demo", "dashboard", "diagnose"}),
        (("stagewatch", "query", "qu"), {"quantile"}),
        (("stagewatch", "query", "quantile", "--m"), {"--metric"}),
        (("stagewatch", "slo", "status", "--format", ""), {"table", "json"}),
    ],
)
def test_bash_offers_what_comes_next(script, words, some):
    assert some <= offered(script, *words)


@pytest.mark.parametrize(("shell", "opens"), [("zsh", "#compdef stagewatch"), ("fish", "complete")])
def test_other_shells_get_theirs(shell, opens, capsys):
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out

    assert opens in said
    assert "--metric" in said or "-l metric" in said


def test_an_unknown_shell_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as end:
        main(["completion", "cmd"])

    assert end.value.code == 2
    assert "bash" in capsys.readouterr().err
