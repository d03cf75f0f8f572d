"""Real captures as exports, span by span: to be shuffled, sent twice, and told by other clocks."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.importing import exports_of
from tests.paths import RECORDED

__all__ = ["CAPTURES", "NOW_S", "SETTINGS", "WINDOW_S", "exports", "shifted", "singles"]

NOW_S = 1_795_967_000.0  # a quarter of an hour after the last of them
WINDOW_S = (1_795_960_000, 1_795_970_000)
CAPTURES = {
    "vllm/overload": ("vllm-tiny",),
    "vllm-disagg": ("vllm-prefill", "vllm-decode"),
    "dynamo": ("frontend", "prefill0", "decode0"),
}
"""Folders and the services whose spans lie in them; the clients' side lies beside."""

SETTINGS = {
    "roles": {"vllm-prefill": "prefill", "vllm-decode": "decode"},
    "services": {
        name: "chat" for services in CAPTURES.values() for name in services if len(services) > 1
    },
}


def exports(capture):
    """The spans of all sides, in the order in which an importer sends them."""
    folder = RECORDED / capture
    return [
        export
        for name in ("all-spans.bin", "client.jsonl")
        for export in exports_of([folder / name], pages=None, labels={})
    ]


def singles(found):
    """Every span in an export of its own."""
    for export in found:
        for resource in export.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    single = ExportTraceServiceRequest()
                    into = single.resource_spans.add()
                    into.resource.CopyFrom(resource.resource)
                    into.scope_spans.add().spans.add().CopyFrom(span)
                    yield single


def shifted(found, service, by_s):
    """The same told by a service whose clock is off."""
    made = []
    for export in found:
        copy = ExportTraceServiceRequest()
        copy.CopyFrom(export)
        for resource in copy.resource_spans:
            names = {a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans if service in names else ():
                    span.start_time_unix_nano += int(by_s * 10**9)
                    span.end_time_unix_nano += int(by_s * 10**9)
        made.append(copy)
    return made
