"""The collector's settings: what they accept, what they refuse and what they never print."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from collector.settings import CollectorSettings, TierRetention


def test_the_defaults_listen_on_loopback_where_otlp_senders_look():
    settings = CollectorSettings()

    assert (settings.host, settings.otlp_http_port, settings.otlp_grpc_port) == (
        "127.0.0.1",
        4318,
        4317,
    )


def test_an_unknown_key_is_an_error():
    with pytest.raises(ValidationError, match="max_bodi_bytes"):
        CollectorSettings(max_bodi_bytes=1)


def test_settings_do_not_change_once_made():
    with pytest.raises(ValidationError, match="frozen"):
        CollectorSettings().host = "0.0.0.0"  # noqa: S104 - that it cannot be set is the test


def test_a_token_is_never_printed():
    settings = CollectorSettings(tokens=["sesame"])

    assert "sesame" not in f"{settings!r}{settings}{settings.model_dump_json()}"
    assert settings.tokens[0].get_secret_value() == "sesame"


@pytest.mark.parametrize("token", ["", "  "])
def test_an_empty_token_would_let_anyone_in_and_is_refused(token):
    with pytest.raises(ValidationError, match="would let anyone in"):
        CollectorSettings(tokens=["good", token])


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(ValidationError, match="otlp_grpc_port"):
        CollectorSettings(otlp_grpc_port=port)


def test_a_decompressed_limit_below_the_plain_one_is_refused():
    with pytest.raises(ValidationError, match="raise the first or lower the second"):
        CollectorSettings(max_body_bytes=2000, max_decompressed_bytes=1000)


def test_a_role_is_prefill_decode_or_both():
    assert CollectorSettings(roles={"vllm-prefill": "prefill"}).roles["vllm-prefill"] == "prefill"
    with pytest.raises(ValidationError, match="roles"):
        CollectorSettings(roles={"vllm-prefill": "prefil"})


def test_a_finer_tier_is_never_kept_longer_than_a_coarser_one():
    with pytest.raises(ValidationError, match="coarser tier must be kept at least as long"):
        TierRetention(tier_10s_s=10 * 86_400, tier_1m_s=86_400)


def test_retention_covers_every_tier_of_the_store():
    from collector.schema import TIERS_S

    assert tuple(TierRetention().by_tier()) == TIERS_S


@pytest.mark.parametrize("model", [CollectorSettings, TierRetention])
def test_every_setting_says_what_it_means(model):
    silent = [name for name, field in model.model_fields.items() if not field.description]

    assert silent == []


def test_reading_settings_loads_no_server():
    program = (
        "import sys, collector.settings;"
        "print([m for m in ('fastapi', 'sqlalchemy', 'grpc', 'uvicorn') if m in sys.modules])"
    )

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "[]"
