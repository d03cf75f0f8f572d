"""What can be set, and what can never work."""

import pytest
from pydantic import ValidationError

from exporters.engine.settings import EngineSettings, TargetSettings


def settings(**changes):
    return EngineSettings(
        **{"targets": [{"url": "http://engine:8000", "service": "chat"}], **changes}
    )


def test_a_bare_host_means_its_metrics_page():
    def page_url(url):
        return TargetSettings(url=url, service="chat").page_url

    assert page_url("http://engine:8000") == "http://engine:8000/metrics"
    assert page_url("http://engine:8000/") == "http://engine:8000/metrics"
    assert page_url("https://engine/prometheus/metrics") == "https://engine/prometheus/metrics"


def test_a_target_is_named_by_its_address_unless_told():
    plain = TargetSettings(url="http://engine:8000", service="chat")
    named = TargetSettings(url="http://engine:8000", service="chat", replica="r0", role="decode")

    assert dict(plain.series) == {"service": "chat", "replica": "engine:8000"}
    assert dict(named.series) == {"service": "chat", "replica": "r0", "role": "decode"}


def test_labels_of_the_operator_go_along():
    target = TargetSettings(url="http://e", service="chat", pool="a", labels={"use_case": "voice"})

    assert dict(target.series)["use_case"] == "voice"
    assert dict(target.series)["pool"] == "a"


@pytest.mark.parametrize("url", ["engine:8000", "ftp://engine", "http://", "/metrics", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ValidationError, match="no web address"):
        TargetSettings(url=url, service="chat")


def test_a_password_in_an_address_is_refused():
    with pytest.raises(ValidationError, match="ends up in logs"):
        TargetSettings(url="http://user:secret@engine", service="chat")


@pytest.mark.parametrize("name", ["team", "source", "reason", "le"])
def test_a_label_that_is_none_is_refused_and_names_those_that_are(name):
    with pytest.raises(ValidationError, match="use one of model, "):
        TargetSettings(url="http://e", service="chat", labels={name: "x"})


def test_a_label_with_a_setting_of_its_own_is_sent_there():
    with pytest.raises(ValidationError, match="role is a setting of its own"):
        TargetSettings(url="http://e", service="chat", labels={"role": "decode"})


def test_two_targets_of_one_name_are_refused():
    twice = [{"url": f"http://e{n}", "service": "chat", "replica": "r0"} for n in range(2)]

    with pytest.raises(ValidationError, match="give each its own `replica`"):
        settings(targets=twice)


@pytest.mark.parametrize(
    "change",
    [
        {"targets": []},
        {"interval_s": 0},
        {"timeout_s": -1},
        {"timeout_s": float("nan")},
        {"max_page_bytes": 0},
        {"listen_port": 70_000},
        {"spool_bytes": 1},
        {"spool_age_s": 0},
        {"endpoint": "collector"},
        {"colour": "blue"},
        {"targets": [{"url": "http://e", "service": ""}]},
        {"targets": [{"url": "http://e", "service": "x", "role": "both of them"}]},
    ],
)
def test_a_setting_that_can_never_work_is_refused(change):
    with pytest.raises(ValidationError):
        settings(**change)


def test_the_token_is_never_printed():
    changes = {"token": "hush"}
    told = settings(**changes)

    assert "hush" not in repr(told) + told.model_dump_json()


def test_scrapes_are_a_second_or_two_apart_unless_told():
    assert 1 <= settings().interval_s <= 2


def test_a_stall_is_judged_after_five_seconds_unless_told():
    targets = [{"url": "http://engine", "service": "chat"}]

    assert EngineSettings(targets=targets).stall_after_s == 5
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        EngineSettings(targets=targets, stall_after_s=0.5)
