"""Remote-write requests written by hand, byte by byte as the specification has them: no code of ours."""

import struct

import cramjam

__all__ = [
    "STALE",
    "double",
    "exposed_counter",
    "exposed_native",
    "message",
    "native",
    "packed",
    "request_1",
    "request_2",
    "series_1",
    "snappy",
    "spans",
    "text",
    "varint",
    "zigzag",
]

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint(value << 1 if value >= 0 else ((-value) << 1) - 1)


def number(field, value):
    return varint(field << 3) + varint(value) if value else b""


def double(field, value):
    bits = struct.pack("<d", value)
    return varint(field << 3 | 1) + bits if bits != bytes(8) else b""


def message(field, body):
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field, word):
    return message(field, word.encode())


def packed(field, values, one=varint):
    return message(field, b"".join(map(one, values))) if values else b""


def doubles(field, values):
    return message(field, struct.pack(f"<{len(values)}d", *values)) if values else b""


def sample(at_ms, value, started_ms=0):
    return double(1, value) + number(2, at_ms) + number(3, started_ms)


def spans(field, pairs):
    return b"".join(
        message(field, varint(1 << 3) + zigzag(offset) + number(2, length))
        for offset, length in pairs
    )


def native(
    at_ms,
    *,
    count,
    total,
    schema=3,
    zero=0,
    threshold=2.938735877055719e-39,
    positive=(),
    deltas=(),
    counts=(),
    negative=(),
    negative_deltas=(),
    hint=0,
    custom=(),
    is_float=False,
):
    """A histogram: spans are (offset, length); deltas of whole numbers or plain float counts."""
    return b"".join(
        (
            double(2, count) if is_float else number(1, count),
            double(3, total),
            varint(4 << 3) + zigzag(schema),
            double(5, threshold),
            double(7, zero) if is_float else number(6, zero),
            spans(8, negative),
            packed(9, negative_deltas, zigzag),
            spans(11, positive),
            packed(12, deltas, zigzag),
            doubles(13, counts),
            number(14, hint),
            number(15, at_ms),
            doubles(16, custom),
        )
    )


def series_1(labels, samples=(), histograms=(), exemplars=0):
    """A `prometheus.TimeSeries`."""
    return (
        b"".join(message(1, text(1, k) + text(2, v)) for k, v in labels)
        + b"".join(message(2, sample(*each)) for each in samples)
        + b"".join(message(3, double(2, 1.0)) for _ in range(exemplars))
        + b"".join(message(4, each) for each in histograms)
    )


def request_1(*series, metadata=0):
    return b"".join(message(1, each) for each in series) + b"".join(
        message(3, number(1, 1) + text(2, "a_family")) for _ in range(metadata)
    )


def request_2(*series, symbols=None):
    """An `io.prometheus.write.v2.Request` of dictionaries: labels, samples, histograms and more."""
    table = [""] if symbols is None else list(symbols)
    bodies = []
    for each in series:
        references = each.get("references")
        if references is None:
            references = []
            for word in (word for pair in each["labels"] for word in pair):
                if word not in table:
                    table.append(word)
                references.append(table.index(word))
        bodies.append(
            packed(1, references)
            + b"".join(message(2, sample(*one)) for one in each.get("samples", ()))
            + b"".join(message(3, one) for one in each.get("histograms", ()))
            + b"".join(message(4, double(2, 1.0)) for _ in range(each.get("exemplars", 0)))
            + (message(5, number(1, 1)) if each.get("metadata") else b"")
            + number(6, each.get("created_ms", 0))
        )
    return b"".join(text(4, word) for word in table) + b"".join(message(5, body) for body in bodies)


def snappy(body):
    return bytes(cramjam.snappy.compress_raw(body))


def exposed_native(name, labels, *, count, total, schema, positive, deltas, zero=0):
    """A `MetricFamily` of one native histogram, as a page of protobuf has it."""
    histogram = b"".join(
        (
            number(1, count),
            double(2, total),
            varint(5 << 3) + zigzag(schema),
            double(6, 1e-9),
            number(7, zero),
            spans(12, positive),
            packed(13, deltas, zigzag),
        )
    )
    metric = b"".join(message(1, text(1, k) + text(2, v)) for k, v in labels)
    family = text(1, name) + number(3, 4) + message(4, metric + message(7, histogram))
    return varint(len(family)) + family


def exposed_counter(name, labels, value):
    """The same of one counter."""
    metric = b"".join(message(1, text(1, k) + text(2, v)) for k, v in labels)
    family = text(1, name) + number(3, 0) + message(4, metric + message(3, double(1, value)))
    return varint(len(family)) + family
