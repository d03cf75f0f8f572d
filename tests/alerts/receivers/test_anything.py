"""The rest, by Apprise: yes, no, and no way into a private network."""

import pytest

from alerts.receivers.anything import Anything
from alerts.receivers.attempt import Fate
from alerts.receivers.settings import AppriseSettings
from domain.errors import ConfigError
from tests.alerts.receivers.listening import Listening
from tests.alerts.receivers.told import KEY, NOW_S, body

pytest.importorskip("apprise", reason="the extra [apprise] is not installed")
# why: Apprise 2.3 looks for a module that Python gives up
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def sent(*urls, resolver=None, **settings):
    receiver = Anything(AppriseSettings(name="x", type="apprise", urls=urls, **settings), resolver)
    return receiver.send(body(), key=KEY, now_s=NOW_S)


def address(service):
    return f"json://{service.url.removeprefix('http://')}/s3cret"


def test_a_title_and_a_text_arrive():
    with Listening() as service:
        attempt = sent(address(service), allow_private=True)

    assert attempt.fate is Fate.DELIVERED
    assert service.said()["title"] == "Page: chat-ttft, queue on decode-3"
    assert "Budget left: 43 %" in service.said()["message"]
    assert service.said()["type"] == "failure"


def test_a_no_is_tried_again_and_says_nothing_of_the_address():
    with Listening((500, {}, "")) as service:
        attempt = sent(address(service), allow_private=True)

    assert (attempt.fate, attempt.detail) == (Fate.RETRY, "1 of 1 did not take it")


def test_a_private_host_is_refused_and_nothing_is_sent():
    with Listening() as service:
        attempt = sent(address(service))

    assert attempt.fate is Fate.REFUSED
    assert not service.posts


def test_a_url_that_apprise_does_not_know_is_one_clear_error_without_the_secret():
    with pytest.raises(ConfigError, match="begins with 'carrierpigeon'") as error:
        sent("carrierpigeon://s3cret")

    assert "s3cret" not in str(error.value)
