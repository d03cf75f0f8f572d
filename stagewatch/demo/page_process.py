"""The families that belong to the process and its HTTP server rather than to the engine."""

from collections.abc import Iterable

from stagewatch.demo.page_families import HTTP_DURATION_HIGHR_S, HTTP_DURATION_S
from stagewatch.demo.page_text import Histogram, cumulated, head, number

__all__ = ["HttpFamilies", "process_lines"]

_HANDLER = "/v1/chat/completions"


class HttpFamilies:
    """The families of the HTTP server, which appear with the first request."""

    def __init__(self, created_s: float) -> None:
        self._process_s = created_s
        self._since: dict[str, float] = {}
        self._status: dict[str, int] = {}
        self._fine = Histogram(HTTP_DURATION_HIGHR_S)
        self._coarse = Histogram(HTTP_DURATION_S)
        self._bytes = 0

    def answered(self, status: str, seconds: float, at_s: float, size_bytes: int) -> None:
        self._status[status] = self._status.get(status, 0) + 1
        self._since.setdefault(status, at_s)
        self._fine.observe(seconds)
        self._coarse.observe(seconds)
        self._bytes += size_bytes

    def lines(self) -> Iterable[str]:
        if not self._status:
            return
        own, method = f'handler="{_HANDLER}"', f'handler="{_HANDLER}",method="POST"'
        since = number(min(self._since.values()))
        text = "Total number of requests by method, status and handler."
        yield from head("http_requests_total", "counter", text)
        for status, count in self._status.items():
            yield f'http_requests_total{{{method},status="{status}"}} {number(count)}'
        yield from head("http_requests_created", "gauge", text)
        for status, at_s in self._since.items():
            yield f'http_requests_created{{{method},status="{status}"}} {number(at_s)}'
        for name, way, size in (
            ("http_request_size_bytes", "incoming requests", self._bytes),
            ("http_response_size_bytes", "outgoing responses", 0),
        ):
            text = (
                f"Content length of {way} by handler. Only value of header is respected. "
                "Otherwise ignored. No percentile calculated. "
            )
            yield from head(name, "summary", text)
            yield f"{name}_count{{{own}}} {number(self._fine.count)}"
            yield f"{name}_sum{{{own}}} {number(size)}"
            yield from (*head(f"{name}_created", "gauge", text), f"{name}_created{{{own}}} {since}")
        yield from self._durations(method, since)

    def _durations(self, method: str, since: str) -> Iterable[str]:
        name = "http_request_duration_highr_seconds"
        text = (
            "Latency with many buckets but no API specific labels. "
            "Made for more accurate percentile calculations. "
        )
        yield from head(name, "histogram", text)
        edges = [*(f'{{le="{edge}"}}' for edge in (*self._fine.edges, "+Inf"))]
        names = [*(f"{name}_bucket{edge} " for edge in edges), f"{name}_count ", f"{name}_sum "]
        for prefix, value in zip(names, cumulated(self._fine), strict=True):
            yield prefix + number(value)
        yield from head(f"{name}_created", "gauge", text)
        yield f"{name}_created {number(self._process_s)}"
        name = "http_request_duration_seconds"
        text = (
            "Latency with only few buckets by handler. "
            "Made to be only used if aggregation by handler is important. "
        )
        yield from head(name, "histogram", text)
        handler, rest = method.split(",")
        buckets = [
            f'{name}_bucket{{{handler},le="{edge}",{rest}}} '
            for edge in (*self._coarse.edges, "+Inf")
        ]
        names = [*buckets, f"{name}_count{{{method}}} ", f"{name}_sum{{{method}}} "]
        for prefix, value in zip(names, cumulated(self._coarse), strict=True):
            yield prefix + number(value)
        yield from head(f"{name}_created", "gauge", text)
        yield f"{name}_created{{{method}}} {since}"


def process_lines(created_s: float, cpu_s: float) -> list[str]:
    """The families of Python and of the process, which every page begins with."""
    lines: list[str] = []
    for name, text in (
        ("python_gc_objects_collected_total", "Objects collected during gc"),
        ("python_gc_objects_uncollectable_total", "Uncollectable objects found during GC"),
        ("python_gc_collections_total", "Number of times this generation was collected"),
    ):
        lines += head(name, "counter", text)
        lines += [f'{name}{{generation="{generation}"}} 0.0' for generation in range(3)]
    lines += head("python_info", "gauge", "Python platform information")
    lines.append(
        'python_info{implementation="CPython",major="3",minor="12",patchlevel="11",'
        'version="3.12.11"} 1.0'
    )
    for name, kind, text, value in (
        ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", 2.1e10),
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", 4.1e9),
        (
            "start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            round(created_s - 23.0, 2),
        ),
        (
            "cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            cpu_s,
        ),
        ("open_fds", "gauge", "Number of open file descriptors.", 103.0),
        ("max_fds", "gauge", "Maximum number of open file descriptors.", 20_000.0),
    ):
        lines += head(f"process_{name}", kind, text)
        lines.append(f"process_{name} {number(value)}")
    return lines
