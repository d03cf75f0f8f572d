"""`stagewatch demo` refuses what cannot work before it starts anything."""

import pytest

from stagewatch.__main__ import main


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--speed", "0"), "speed: 0.0"),
        (("--speed", "-1"), "greater than or equal to 0.1"),
        (("--incident-after", "-3"), "incident_start_s: -3.0"),
        (("--webhook", "notaurl"), "begins with http:// or https://"),
        (("--trace", "no-such-file.csv"), "t_ms, isl and osl"),
        (("--port", "99999"), "cannot listen on 127.0.0.1:99999"),
        (("--data-dir", "/dev/null"), "cannot be made"),
    ],
)
def test_a_wrong_option_is_one_line_with_the_way_out(option, says, capsys, tmp_path, monkeypatch):
    for way in ("HTTP", "GRPC"):
        monkeypatch.setenv(f"STAGEWATCH_COLLECTOR__OTLP_{way}_PORT", "0")

    answer = main(["demo", "--data-dir", str(tmp_path), "--exit-after", "1", *option])

    told = capsys.readouterr().err
    assert answer == 2
    assert says in told
    assert "Traceback" not in told
    assert len(told.strip().splitlines()) == 1


def test_an_unknown_incident_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit) as refused:
        main(["demo", "--incident", "fire"])

    assert refused.value.code == 2
    assert "slow-decode" in capsys.readouterr().err
