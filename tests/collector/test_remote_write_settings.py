"""What Prometheus's names are called here: only what can be."""

import pytest
from pydantic import ValidationError

from collector.remote_write_settings import RemoteWriteSettings
from collector.settings import CollectorSettings
from stagewatch.prometheus.naming import Naming, common


def pairs(**labels):
    return tuple(sorted(labels.items()))


@pytest.mark.parametrize("ours", ["service", "replica", "source", "colour", ""])
def test_a_label_of_ours_that_cannot_be_set_is_refused(ours):
    with pytest.raises(ValidationError, match="is no label that can be set here"):
        RemoteWriteSettings(labels={"team": ours})


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValidationError):
        CollectorSettings(remote_write={"job_label": "job"})


def test_a_role_can_be_said_of_job_service_or_instance_and_the_closest_wins():
    naming = Naming(
        RemoteWriteSettings(
            services={"vllm": "chat"}, roles={"chat": "both", "vllm": "prefill", "b:1": "decode"}
        )
    )

    told = [dict(naming.ours({"job": "vllm", "instance": i}))["role"] for i in ("a:1", "b:1")]

    assert told == ["prefill", "decode"]


def test_a_label_called_role_that_is_none_of_ours_is_no_role():
    naming = Naming(RemoteWriteSettings())

    assert "role" not in dict(naming.ours({"job": "j", "instance": "i", "role": "worker"}))
    assert dict(naming.ours({"job": "j", "instance": "i", "role": "decode"}))["role"] == "decode"


def test_a_target_is_known_by_its_own_labels_and_a_sender_by_his():
    naming = Naming(RemoteWriteSettings(service_label="app", replica_label="pod"))
    labels = pairs(app="chat", pod="p-1", cluster="c", prometheus="a", job="x", le="1")

    whose = naming.whose(labels)

    assert whose.target == pairs(app="chat", pod="p-1", cluster="c")
    assert whose.sender == pairs(prometheus="a")
    assert naming.whose(pairs(job="x", instance="y")) is None


def test_what_all_series_share_is_the_targets():
    assert common([pairs(a="1", b="2"), pairs(a="1", b="3"), pairs(a="1")]) == {"a": "1"}
