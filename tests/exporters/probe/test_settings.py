"""Settings that cannot work are refused, with the reason."""

import pytest
from pydantic import ValidationError

from exporters.probe.settings import ProbeSettings
from tests.exporters.probe.asking import target_of


@pytest.mark.parametrize(
    ("url", "kind", "address"),
    [
        ("http://h:8000", "openai-chat", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/", "openai-completions", "http://h:8000/v1/completions"),
        ("https://h/v1", "openai-chat", "https://h/v1/chat/completions"),
        ("https://h/openai/v1/", "openai-chat", "https://h/openai/v1/chat/completions"),
        ("https://h/v1/chat/completions", "openai-chat", "https://h/v1/chat/completions"),
        (
            "https://h/deployments/x/chat/completions?api-version=1",
            "openai-chat",
            "https://h/deployments/x/chat/completions?api-version=1",
        ),
        ("https://h/custom", "openai-chat", "https://h/custom"),
    ],
)
def test_the_path_is_added_where_it_is_missing(url, kind, address):
    assert target_of(url, kind=kind).address == address


def test_the_last_of_a_path_is_what_users_see():
    target = target_of(None, path=["http://engine:8000", "https://public"])

    assert target.hops == (
        "http://engine:8000/v1/chat/completions",
        "https://public/v1/chat/completions",
    )
    assert target.address == target.hops[-1]
    assert target.replica == "public"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"url": None}, "give the `url`"),
        ({"path": ["http://a", "http://b"]}, "not both"),
        ({"kind": "bedrock"}, "needs a `region`"),
        ({"url": None, "kind": "sagemaker", "region": "r", "path": ["http://a"]}, "no `path`"),
        ({"month_usd": 5.0}, "needs both prices"),
        ({"url": "ftp://x"}, "no web address"),
        ({"url": "http://user:pass@x"}, "password"),
        ({"url": "http://h:99999"}, "out of range"),
        ({"url": "http://h:port"}, "cast to integer"),
        ({"url": "http://h:0"}, "port 0"),
        ({"url": "http://h/v1/ü"}, "cannot be sent"),
        ({"url": "http://a b/v1"}, "cannot be sent"),
        ({"url": "http://h/v1\x7f"}, "cannot be sent"),
        ({"headers": {"Content-Length": "3"}}, "follows from the body"),
        ({"headers": {"transfer-encoding": "chunked"}}, "follows from the body"),
        ({"headers": {"x-a": "b\r\nx-evil: 1"}}, "cannot be sent"),
        ({"headers": {"bad name": "b"}}, "cannot be sent"),
        ({"api_key": "key\n"}, "newline"),
        ({"labels": {"service": "x"}}, "setting of its own"),
        ({"labels": {"colour": "x"}}, "is no label"),
        ({"max_tokens": 100_000}, "less than or equal"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        target_of(**{"url": "http://here", **changes})


def test_two_targets_of_one_name_are_refused():
    target = {"service": "chat", "model": "m", "url": "http://a"}

    with pytest.raises(ValidationError, match="give each its own `name`"):
        ProbeSettings(targets=[target, target])


def test_a_month_begins_in_a_zone_that_exists():
    with pytest.raises(ValidationError, match="no time zone"):
        ProbeSettings(targets=[target_of("http://a")], zone="Mars/Base")


def test_a_key_is_in_no_representation():
    target = target_of("http://a", api_key="hush", headers={"x-key": "hush"})

    assert "hush" not in repr(target)
    assert "hush" not in target.model_dump_json()
