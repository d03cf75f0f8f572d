"""AWS event streams by hand: frames with their checksums, as Bedrock and SageMaker send them."""

import json
import struct
import zlib

__all__ = ["answered", "bedrock", "exception", "frame", "part"]

_STREAM = "application/vnd.amazon.eventstream"


def frame(headers, payload):
    """A prelude, its CRC, headers of type 7 (string), the payload, and the CRC of all."""
    told = b"".join(
        bytes((len(name),))
        + name.encode()
        + b"\x07"
        + struct.pack("!H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", len(told) + len(payload) + 16, len(told))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + told + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def bedrock(kind, **told):
    """One event of a ConverseStream."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(told).encode())


def part(payload):
    """One PayloadPart of a SageMaker stream: any bytes of the container's answer."""
    kind = "application/octet-stream"
    return frame(
        {":event-type": "PayloadPart", ":content-type": kind, ":message-type": "event"}, payload
    )


def exception(kind, message):
    """An exception in the middle of a stream."""
    headers = {":exception-type": kind, ":content-type": "application/json"}
    headers[":message-type"] = "exception"
    return frame(headers, json.dumps({"message": message}).encode())


def answered(*frames):
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {_STREAM}\r\nconnection: close\r\n\r\n"
    return (head.encode(), *frames)
