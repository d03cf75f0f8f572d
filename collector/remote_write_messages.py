"""The messages of Prometheus remote-write 1.0 and 2.0, as far as they are read here.

A request is decoded in two steps: first its series as bytes, then those of them that somebody
wants. Most of what a Prometheus sends is of no interest, and need not become objects.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

__all__ = ["Label", "Request", "TimeSeries", "TimeSeries2", "WriteRequest"]

_TYPES: Final = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "stagewatch.remote_write"

_Field = tuple[int, str, str]
"""Number, name, and type: `*` before it means repeated, a capital letter a message of this file."""

_HISTOGRAM: tuple[_Field, ...] = (  # the same in both versions
    (1, "count_int", "uint64"),
    (2, "count_float", "double"),
    (3, "sum", "double"),
    (4, "schema", "sint32"),
    (5, "zero_threshold", "double"),
    (6, "zero_count_int", "uint64"),
    (7, "zero_count_float", "double"),
    (8, "negative_spans", "*BucketSpan"),
    (9, "negative_deltas", "*sint64"),
    (10, "negative_counts", "*double"),
    (11, "positive_spans", "*BucketSpan"),
    (12, "positive_deltas", "*sint64"),
    (13, "positive_counts", "*double"),
    (14, "reset_hint", "int32"),  # an enumeration; the wire is the same
    (15, "timestamp", "int64"),
    (16, "custom_values", "*double"),
    (17, "start_timestamp", "int64"),
)
_ONEOFS = {"count_int": 0, "count_float": 0, "zero_count_int": 1, "zero_count_float": 1}
_MESSAGES: dict[str, tuple[_Field, ...]] = {
    "Label": ((1, "name", "string"), (2, "value", "string")),
    "Sample": ((1, "value", "double"), (2, "timestamp", "int64"), (3, "start_timestamp", "int64")),
    "BucketSpan": ((1, "offset", "sint32"), (2, "length", "uint32")),
    "Histogram": _HISTOGRAM,
    "TimeSeries": (
        (1, "labels", "*Label"),
        (2, "samples", "*Sample"),
        (3, "exemplars", "*bytes"),
        (4, "histograms", "*Histogram"),
    ),
    "WriteRequest": ((1, "timeseries", "*bytes"), (3, "metadata", "*bytes")),
    "TimeSeries2": (
        (1, "labels_refs", "*uint32"),
        (2, "samples", "*Sample"),
        (3, "histograms", "*Histogram"),
        (4, "exemplars", "*bytes"),
        (5, "metadata", "bytes"),
        (6, "created_timestamp", "int64"),
    ),
    "Request": ((4, "symbols", "*string"), (5, "timeseries", "*bytes")),
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="stagewatch/remote_write.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field_name, kind in fields:
            _add_field(message, number, field_name, kind)
        if name == "Histogram":
            message.oneof_decl.add(name="count")
            message.oneof_decl.add(name="zero_count")
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _TYPES.LABEL_REPEATED if kind.startswith("*") else _TYPES.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    if kind[0].isupper():
        field.type, field.type_name = _TYPES.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = _TYPES.Type.Value(f"TYPE_{kind.upper()}")
    if name in _ONEOFS:
        field.oneof_index = _ONEOFS[name]


_POOL: Final = descriptor_pool.DescriptorPool()  # of its own: nothing global is touched
_POOL.Add(_file())


def _class(name: str) -> Any:
    descriptor = _POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    message: type[Message] = message_factory.GetMessageClass(descriptor)
    return message


Label: Final = _class("Label")
TimeSeries: Final = _class("TimeSeries")
TimeSeries2: Final = _class("TimeSeries2")
WriteRequest: Final = _class("WriteRequest")
Request: Final = _class("Request")
