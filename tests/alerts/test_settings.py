"""Settings: defaults that work, mistakes that are explained, secrets that stay secret."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from alerts.receivers.settings import WebhookSettings
from alerts.settings import AlertsSettings
from domain.objective import Severity

HOOK = {"name": "pager", "url": "https://hooks.example/s3cret"}


def test_the_defaults_watch_nothing_and_tell_nobody():
    settings = AlertsSettings()

    assert (settings.objectives, settings.receivers) == ((), ())
    assert settings.state_location(Path("data")) == "sqlite:///data/alerts.db"


def test_another_state_may_be_named():
    settings = AlertsSettings(state_url="postgresql://stagewatch:s3cret@db/alerts")

    assert settings.state_location(Path("data")).startswith("postgresql://")
    assert "s3cret" not in repr(settings)


def test_no_secret_of_a_receiver_is_ever_printed():
    receiver = WebhookSettings(**HOOK, headers={"Authorization": "Bearer s3cret"})

    assert "s3cret" not in repr(receiver) + receiver.model_dump_json()


def test_engines_are_watched_without_any_objective():
    settings = AlertsSettings()

    assert settings.conditions.engine_stalled is Severity.PAGE
    assert settings.conditions.target_down is Severity.TICKET


@pytest.mark.parametrize("off", ["off", False, "false", "none"], ids=repr)
def test_a_condition_can_be_switched_off_also_as_yaml_writes_it(off):
    settings = AlertsSettings(conditions={"engine_stalled": off, "target_down": "page"})

    assert settings.conditions.engine_stalled is None
    assert settings.conditions.target_down is Severity.PAGE


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"receivers": [HOOK, HOOK]}, "two receivers are called 'pager'"),
        ({"receivers": [{**HOOK, "name": "a b"}]}, "name"),
        ({"receivers": [{**HOOK, "timeout_s": 0}]}, "timeout_s"),
        ({"recievers": []}, "recievers"),
        ({"grace_s": -1}, "grace_s"),
        ({"conditions": {"engine_stalled": "loud"}}, "engine_stalled"),
        ({"conditions": {"forget_after_s": 5}}, "forget_after_s"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(wrong, said):
    with pytest.raises(ValidationError, match=said):
        AlertsSettings(**wrong)
