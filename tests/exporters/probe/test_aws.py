"""Bedrock and SageMaker on the wire: what boto3 would send, and frames as AWS sends them."""

import json
import subprocess
import sys
import threading

import boto3
import pytest
from botocore.config import Config

from domain.request import Outcome
from exporters.probe.aws import _session
from exporters.probe.finding import finding
from exporters.probe.prompt import Prompt
from exporters.probe.settings import ProbeTarget
from tests.exporters.probe.asking import ask
from tests.exporters.probe.fake_aws import answered, bedrock, exception, frame, part
from tests.exporters.probe.raw_server import RawServer
from tests.paths import RECORDED

PROMPT = Prompt(text="Hello", max_tokens=9)
MODEL = "anthropic.claude-3-5-sonnet-20241022-v2:0"
RECORDING = RECORDED / "cloudwatch" / "converse_stream.eventstream.bin"
_INVOKED = "/endpoints/m%3A0/invocations-response-stream"
METADATA = bedrock("metadata", usage={"inputTokens": 4, "outputTokens": 3, "totalTokens": 7})
STOP = bedrock("messageStop", stopReason="end_turn")


@pytest.fixture(autouse=True)
def credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-very-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the-session")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    _session.cache_clear()
    yield
    _session.cache_clear()


def target(kind, url=None, **changes):
    told = {"service": "chat", "kind": kind, "model": MODEL, "region": "eu-west-1", "url": url}
    return ProbeTarget(**{**told, **changes})


def delta(text):
    return bedrock("contentBlockDelta", delta={"text": text}, contentBlockIndex=0)


def probed(*frames, kind="bedrock", **changes):
    with RawServer(*answered(*frames)) as aws:
        return ask(target(kind, aws.url, **changes), prompt=PROMPT)


def test_a_recorded_converse_stream_is_read():
    with RawServer(*answered(RECORDING.read_bytes())) as aws:
        done = ask(target("bedrock", aws.url), prompt=PROMPT)

    assert (done.outcome, done.finish_reason) == (Outcome.OK, "end_turn")
    assert (done.prompt_tokens, done.output_tokens, done.chunks) == (12, 2, 2)
    assert done.connect_s is not None


def test_every_delta_has_its_own_instant():
    done = probed(bedrock("messageStart", role="assistant"), delta("a"), 0.1, delta("b"), STOP)

    assert done.chunks == 2
    assert done.gaps_s[0] >= 0.09
    assert (done.output_tokens, done.counted_tokens) == (2, False)


def test_thought_and_tool_input_are_tokens_too():
    thought = bedrock("contentBlockDelta", delta={"reasoningContent": {"text": "hm"}})
    tool = bedrock("contentBlockDelta", delta={"toolUse": {"input": "{"}})

    assert probed(thought, tool, STOP, METADATA).chunks == 2


def test_frames_may_be_cut_anywhere():
    whole = delta("a") + delta("b") + STOP + METADATA
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]

    done = probed(*pieces)

    assert (done.ok, done.chunks, done.output_tokens) == (True, 2, 3)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("modelStreamErrorException", "error_event"),
        ("throttlingException", "throttled"),
        ("internalServerException", "error_event"),
    ],
)
def test_an_exception_in_the_middle_is_a_failure_with_its_name(kind, reason):
    done = probed(delta("a"), exception(kind, "the model broke"))

    assert done.outcome is Outcome.FAILED
    assert f"{kind}: " in done.trouble
    assert "the model broke" in done.trouble
    assert finding(done).reason == reason


def test_a_stream_without_its_stop_is_not_whole():
    assert probed(delta("a"), delta("b")).reason == "no_finish"


@pytest.mark.parametrize(
    "data",
    [
        delta("a")[:-4] + b"\0\0\0\0",
        b"\0" * 64,
        b"\xff" * 64,
        frame({":message-type": "event", ":event-type": "contentBlockDelta"}, b"no json"),
    ],
    ids=["wrong checksum", "zeros", "ones", "no json"],
)
def test_frames_that_are_none_are_garbage(data):
    assert probed(data).reason == "garbage"


@pytest.mark.parametrize(
    ("status", "kind", "reason", "outcome"),
    [
        (429, "ThrottlingException", "http_429", Outcome.FAILED),
        (429, "ModelNotReadyException", "cold_start", Outcome.FAILED),
        (403, "AccessDeniedException", "http_403", Outcome.REJECTED),
        (424, "ModelErrorException", "http_424", Outcome.REJECTED),
    ],
)
def test_what_aws_refuses_is_named(status, kind, reason, outcome):
    body = json.dumps({"message": "not now"}).encode()
    head = f"HTTP/1.1 {status} X\r\nx-amzn-errortype: {kind}:http://internal/\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    with RawServer(head.encode() + body) as aws:
        done = ask(target("bedrock", aws.url), prompt=PROMPT)

    assert (finding(done).reason, done.outcome) == (reason, outcome)
    assert f"{kind}: " in done.trouble


def test_sagemaker_parts_hold_events_cut_anywhere():
    chunks = b"".join(
        b"data: " + json.dumps({"choices": [{"delta": {"content": word}}]}).encode() + b"\n\n"
        for word in ("Hel", "lo", "!")
    )
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    whole = chunks + end
    parts = [part(whole[at : at + 11]) for at in range(0, len(whole), 11)]

    done = probed(*parts, kind="sagemaker")

    assert (done.ok, done.chunks, done.finish_reason) == (True, 3, "stop")


def test_sagemaker_parts_hold_json_lines_of_lmi_too():
    lines = b"".join(
        json.dumps({"token": {"id": 1, "text": word}}).encode() + b"\n" for word in ("a", "b")
    )
    last = {"token": {"id": 2, "text": "c"}, "generated_text": "abc"}
    last["details"] = {"finish_reason": "length", "generated_tokens": 3}
    lines += json.dumps(last).encode() + b"\n"
    parts = [part(lines[at : at + 5]) for at in range(0, len(lines), 5)]

    done = probed(*parts, kind="sagemaker")

    assert (done.ok, done.chunks, done.output_tokens) == (True, 3, 3)


def test_a_sagemaker_stream_error_is_a_failure():
    done = probed(part(b"data: "), exception("ModelStreamError", "died"), kind="sagemaker")

    assert (done.reason, "died" in done.trouble) == ("error_event", True)


def of_boto3(kind, url):
    """The request that boto3 itself makes for the same question."""
    service = {"bedrock": "bedrock-runtime", "sagemaker": "sagemaker-runtime"}[kind]
    once = Config(retries={"total_max_attempts": 1}, read_timeout=5)
    client = boto3.session.Session().client(
        service, region_name="eu-west-1", endpoint_url=url, config=once
    )
    try:
        if kind == "bedrock":
            answer = client.converse_stream(
                modelId=MODEL,
                messages=[{"role": "user", "content": [{"text": "Hello"}]}],
                inferenceConfig={"maxTokens": 9},
            )
            list(answer["stream"])
        else:
            answer = client.invoke_endpoint_with_response_stream(
                EndpointName=MODEL, Body=b"{}", ContentType="application/json"
            )
            list(answer["Body"])
    finally:
        client.close()


@pytest.mark.parametrize("kind", ["bedrock", "sagemaker"])
def test_the_request_is_the_one_that_boto3_makes(kind):
    with RawServer(*answered(STOP)) as aws:
        ask(target(kind, aws.url), prompt=PROMPT)
        thread = threading.Thread(target=of_boto3, args=(kind, aws.url))
        thread.start()
        thread.join()
    (our_line, ours, our_body), (line, theirs, body) = aws.requests

    assert our_line == line
    if kind == "bedrock":
        assert json.loads(our_body) == json.loads(body)
    credential = f"credential=akidexample/{theirs['x-amz-date'][:8]}"
    assert credential in ours["authorization"]
    scope = f"eu-west-1/{kind}/aws4_request"
    assert scope in ours["authorization"]
    assert scope in theirs["authorization"]
    assert ours["x-amz-security-token"] == theirs["x-amz-security-token"] == "the-session"
    assert ours["host"] == theirs["host"]


def test_an_api_key_is_sent_instead_of_a_signature():
    with RawServer(*answered(STOP)) as aws:
        ask(target("bedrock", aws.url, api_key="ABSK-key"), prompt=PROMPT)

    assert aws.requests[0][1]["authorization"] == "bearer absk-key"


def test_without_credentials_nothing_is_sent_and_the_way_out_is_named(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with RawServer(*answered(STOP)) as aws:
        done = ask(target("bedrock", aws.url), prompt=PROMPT)

    assert done.reason == "no_credentials"
    assert "AWS_ACCESS_KEY_ID" in done.trouble
    assert not aws.requests


def test_no_secret_is_in_what_is_said_of_an_exchange():
    done = probed(exception("internalServerException", "x"), api_key="hush-hush")

    assert "the-very-secret" not in repr(done)
    assert "hush-hush" not in repr(done) + repr(target("bedrock", api_key="hush-hush"))


@pytest.mark.parametrize(
    ("kind", "region", "address"),
    [
        (
            "bedrock",
            "eu-west-1",
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m%3A0/converse-stream",
        ),
        (
            "sagemaker",
            "cn-north-1",
            f"https://runtime.sagemaker.cn-north-1.amazonaws.com.cn{_INVOKED}",
        ),
    ],
)
def test_the_address_is_the_regions_own(kind, region, address):
    assert target(kind, region=region, model="m:0").address == address


def test_boto3_is_loaded_only_when_it_is_spoken_to():
    code = "import exporters.probe.run, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert {"boto3", "botocore"}.isdisjoint(loaded)
