"""Amazon SNS, by boto3, against moto's server: topics, FIFO, limits and refusals."""

import boto3
import pytest
from moto.server import ThreadedMotoServer

from alerts.receivers.attempt import Fate
from alerts.receivers.settings import SnsSettings
from alerts.receivers.sns import Sns
from tests.alerts.receivers.told import HOSTILE, KEY, NOW_S, body, hostile

REGION = "eu-west-1"


@pytest.fixture(scope="module")
def aws():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def topic(aws):
    """A topic, and a queue that hears of it."""
    return made(aws, "pages", {})


@pytest.fixture(scope="module")
def fifo(aws):
    return made(aws, "pages.fifo", {"FifoTopic": "true"})


def made(aws, name, attributes):
    return client(aws, "sns").create_topic(Name=name, Attributes=attributes)["TopicArn"]


def client(aws, service):
    return boto3.client(service, region_name=REGION, endpoint_url=aws)


def sent(aws, topic, text, key=KEY, **settings):
    chosen = {"topic_arn": topic, "endpoint_url": aws, "allow_private": True} | settings
    sns = Sns(SnsSettings(name="topic", type="sns", **chosen))
    try:
        return sns.send(text, key=key, now_s=NOW_S)
    finally:
        sns.close()


def test_a_message_reaches_who_subscribed(aws, topic):
    queue = client(aws, "sqs").create_queue(QueueName="hears")["QueueUrl"]
    arn = f"arn:aws:sqs:{REGION}:123456789012:hears"
    client(aws, "sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    attempt = sent(aws, topic, body())
    heard = client(aws, "sqs").receive_message(QueueUrl=queue)["Messages"]

    assert attempt.fate is Fate.DELIVERED
    assert len(heard) == 1
    assert "151 of 1000" in heard[0]["Body"]
    assert "Page: chat-ttft" in heard[0]["Body"]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_sns_takes_whatever_the_labels_hold(aws, topic, text):
    assert sent(aws, topic, hostile(text)).fate is Fate.DELIVERED


def test_a_fifo_topic_is_told_in_order_and_once(aws, fifo):
    fates = [sent(aws, fifo, body(kind), key=kind).fate for kind in ("firing", "resolved")]

    assert fates == [Fate.DELIVERED] * 2


def test_a_topic_that_is_not_there_is_tried_again_since_somebody_may_make_it(aws, topic):
    attempt = sent(aws, topic.replace("pages", "nowhere"), body())

    assert attempt.fate is Fate.RETRY
    assert attempt.detail == "SNS says NotFound"


def test_nobody_there_is_tried_again(topic):
    attempt = sent("http://127.0.0.1:9", topic, body(), timeout_s=1)

    assert attempt.fate is Fate.RETRY
    assert "no answer" in attempt.detail


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic_arn": "pages"}, "topic_arn looks like"),
        ({"topic_arn": "arn:aws:sqs:eu-west-1:111122223333:pages"}, "topic_arn looks like"),
        ({"endpoint_url": "http://10.0.0.1"}, "wants allow_private: true"),
        ({"endpoint_url": "sns.example", "allow_private": True}, "http://"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, said):
    right = {"topic_arn": "arn:aws:sns:eu-west-1:111122223333:pages"}
    with pytest.raises(ValueError, match=said):
        SnsSettings(name="topic", type="sns", **right | wrong)
