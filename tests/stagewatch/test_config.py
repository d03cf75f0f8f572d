"""A configuration that says what is wrong with it."""

import pytest

from domain.errors import ConfigError
from exporters.cloudwatch.settings import CloudWatchSettings
from exporters.engine.settings import EngineSettings
from exporters.gpu.settings import GpuSettings
from exporters.probe.settings import ProbeSettings
from stagewatch import check_config
from stagewatch.config import Config, load
from stagewatch.up import configured


@pytest.fixture
def loaded(tmp_path):
    def load_text(text):
        path = tmp_path / "stagewatch.yaml"
        path.write_text(text)
        return load(path)

    return load_text


def test_nothing_needs_to_be_set():
    config = load(None)

    assert config.collecting.otlp_http_port == 4318
    assert config.dashboard.port == 8400


def test_a_file_sets_what_it_names_and_nothing_else(loaded):
    config = loaded("collector: {otlp_http_port: 14318}\nauth: {tokens: [a, b]}\n")

    assert config.collecting.otlp_http_port == 14318
    assert [token.get_secret_value() for token in config.collecting.tokens] == ["a", "b"]
    assert config.collecting.otlp_grpc_port == 4317


def test_the_environment_wins_over_the_file(loaded, monkeypatch):
    monkeypatch.setenv("STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT", "24318")

    config = loaded("collector: {otlp_http_port: 14318, host: 0.0.0.0}\n")

    assert config.collector.otlp_http_port == 24318
    assert config.collector.host == "0.0.0.0"  # noqa: S104 - the file's word


def test_exports_wait_among_the_data_unless_the_file_says_where(loaded, tmp_path):
    targets = "targets: [{url: 'http://a', service: chat}]"
    plain = loaded(f"exporters: {{engine: {{{targets}}}}}")
    told = loaded(f"exporters: {{engine: {{spool_dir: /spool, {targets}}}}}")

    moved = configured(plain, tmp_path, None)

    assert moved.beside(moved.exporters.engine).spool_dir == tmp_path / "spool"
    assert str(told.beside(told.exporters.engine).spool_dir) == "/spool"


def test_a_sidecar_in_the_collector_s_process_sends_to_it_with_a_token_of_it(loaded):
    targets = "targets: [{url: 'http://a', service: chat}]"
    text = "auth: {tokens: [ours]}\nexporters: {engine: {%s%s}}"
    plain = loaded(text % ("", targets))
    away = loaded(text % ("endpoint: 'https://elsewhere', ", targets))

    here = plain.beside(plain.exporters.engine, "http://127.0.0.1:4319")
    there = away.beside(away.exporters.engine, "http://127.0.0.1:4319")

    assert here.endpoint == "http://127.0.0.1:4319"
    assert here.token.get_secret_value() == "ours"
    assert there.endpoint == "https://elsewhere"
    assert there.token is None


def test_the_gpus_of_the_collector_s_machine_are_told_to_it_too(loaded, tmp_path):
    config = configured(loaded("auth: {tokens: [ours]}\nexporters: {gpu: {}}"), tmp_path, None)

    way = config.beside(config.exporters.gpu, "http://127.0.0.1:4319").plan().way

    assert (way.endpoint, way.token) == ("http://127.0.0.1:4319", "ours")
    assert way.spool_dir == tmp_path / "spool"


def test_the_command_line_wins_over_both(loaded, tmp_path):
    config = configured(loaded("dashboard: {port: 1}\n"), tmp_path, 2)

    assert (config.store.data_dir, config.dashboard.port) == (tmp_path, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("collecter: {}\n", "stagewatch.yaml:1 (collecter): there is no setting 'collecter'"),
        ("collecter: {}\n", "Did you mean 'collector'?"),
        ("collector:\n  otlp_port: 1\n", "stagewatch.yaml:2 (collector.otlp_port)"),
        ("collector:\n  otlp_http_prt: 1\n", "Did you mean 'otlp_http_port'?"),
        ("collector:\n  otlp_http_port: many\n", "stagewatch.yaml:2"),
        ("collector:\n  otlp_http_port: 70000\n", "65535"),
        ("receivers:\n  - {name: x, url: 'ftp://x'}\n", "http:// or https://"),
        ("receivers:\n  - {name: x, adress: 'http://x'}\n", "adress"),
        ("collector: {tokens: [a]}\n", "auth.tokens"),
        ("alerts: {objectives: [x]}\n", "objectives"),
        ("- a\n", "is not a mapping of sections"),
        ("exporters:\n  engine:\n    targets: []\n", "exporters.engine.targets"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_way_out(loaded, text, says):
    with pytest.raises(ConfigError) as error:
        loaded(text)

    assert says in str(error.value)


def test_several_mistakes_are_counted(loaded):
    with pytest.raises(ConfigError, match="1 more after that"):
        loaded("a: 1\nb: 2\n")


def test_no_secret_is_printed(loaded):
    config = loaded("auth: {tokens: [hush]}\nreceivers: [{name: x, url: 'http://x/hush'}]\n")

    assert "hush" not in repr(config)
    assert "hush" not in str(config.collecting)


def test_every_setting_says_what_it_is():
    def fields(model):
        for name, field in model.model_fields.items():
            yield name, field
            if hasattr(field.annotation, "model_fields"):
                yield from fields(field.annotation)

    sections = {"store", "collector", "auth", "exporters", "retention", "alerts", "dashboard"}
    sections |= {"review", "summary", "remote_write_out", "telemetry"}
    unexplained = [name for name, field in fields(Config) if not field.description]

    assert set(unexplained) <= sections


def test_what_a_file_would_watch_is_counted_endpoints_too(tmp_path, capsys):
    file = tmp_path / "stagewatch.yaml"
    target = "{service: chat, model: m, url: 'http://engine'}"
    file.write_text(f"exporters: {{probe: {{targets: [{target}]}}}}\n")

    assert check_config.run(file) == 0
    assert "engines to watch: 0\nendpoints to probe: 1\n" in capsys.readouterr().out


def test_the_own_pages_of_all_sidecars_have_a_port_each():
    sidecars = (EngineSettings, ProbeSettings, GpuSettings, CloudWatchSettings)

    ports = {each.model_fields["listen_port"].default for each in sidecars}

    assert len(ports) == len(sidecars)
