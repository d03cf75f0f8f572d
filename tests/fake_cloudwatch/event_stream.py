"""Event streams of Bedrock's ConverseStream and SageMaker's InvokeEndpointWithResponseStream."""

import json
import struct
import time
import zlib

__all__ = ["converse", "frame", "response_stream"]


def frame(headers, payload):
    """One message of `application/vnd.amazon.eventstream`."""
    told = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    head = struct.pack(">II", 16 + len(told) + len(payload), len(told))
    message = head + struct.pack(">I", zlib.crc32(head)) + told + payload
    return message + struct.pack(">I", zlib.crc32(message))


def converse(account):
    """The frames of one answer, at the pace the account is set to."""
    began = time.monotonic()
    time.sleep(account.ttft_s)
    yield _event("messageStart", {"role": "assistant"})
    for number in range(account.tokens):
        time.sleep(account.itl_s if number else 0)
        if number == account.break_at:
            yield _broken({"message": "the model gave up", "originalStatusCode": 500})
            return
        yield _event("contentBlockDelta", {"delta": {"text": "so "}, "contentBlockIndex": 0})
    yield _event("contentBlockStop", {"contentBlockIndex": 0})
    yield _event("messageStop", {"stopReason": "max_tokens"})
    usage = {"inputTokens": 7, "outputTokens": account.tokens, "totalTokens": 7 + account.tokens}
    latency = {"latencyMs": int((time.monotonic() - began) * 1000)}
    yield _event("metadata", {"usage": usage, "metrics": latency})


def response_stream(account):
    """Parts that are slices of bytes, not tokens."""
    time.sleep(account.ttft_s)
    for number in range(account.tokens):
        time.sleep(account.itl_s if number else 0)
        headers = {":event-type": "PayloadPart", ":content-type": "application/octet-stream"}
        part = f'data: {{"token":{{"text":"t{number}"}}}}\n\n'.encode()
        yield frame({**headers, ":message-type": "event"}, part)


def _event(kind, told):
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(told).encode())


def _broken(told):
    headers = {
        ":exception-type": "modelStreamErrorException",
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, json.dumps(told).encode())
