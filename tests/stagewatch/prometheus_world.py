"""An engine that Prometheus scrapes, as the samples it writes; and what an intake was told of it."""

from collections import Counter

from collector.intake import Outcome
from collector.remote_write_settings import RemoteWriteSettings
from stagewatch.prometheus.receiver import Receiver

__all__ = ["BEGIN_MS", "STEP_MS", "Clock", "Told", "World", "scrape_of", "totals"]

BEGIN_MS = 1_790_000_000_000
STEP_MS = 15_000
EDGES = ("0.1", "1.0", "+Inf")


def scrape_of(
    finished, *, job="chat", instance="10.0.0.1:8000", model="llama", up=1.0, waiting=0.0, **more
):
    """Labels and value of every sample: `finished` requests of 0.5 s each and 10 tokens each."""
    target = {"job": job, "instance": instance, **more}
    engine = {**target, "model_name": model}
    found = [({"__name__": "up", **target}, up)]
    if not up:
        return [(tuple(sorted(labels.items())), value) for labels, value in found]
    for family in ("vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"):
        for le, share in zip(EDGES, (0, 1, 1), strict=True):
            found.append(({"__name__": f"{family}_bucket", "le": le, **engine}, finished * share))
        found.append(({"__name__": f"{family}_count", **engine}, finished))
        found.append(({"__name__": f"{family}_sum", **engine}, finished * 0.5))
    found.append(({"__name__": "vllm:generation_tokens_total", **engine}, finished * 10))
    found.append(({"__name__": "vllm:num_requests_waiting", **engine}, waiting))
    return [(tuple(sorted(labels.items())), float(value)) for labels, value in found]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.s = 1000.0

    def __call__(self):
        return self.s


class Told:
    """An intake that adds up what it is told. `error` is raised instead, if set."""

    def __init__(self):
        self.exports = []
        self.error = None

    def metrics(self, request):
        if self.error:
            raise self.error
        self.exports.append(request)
        return Outcome()

    traces = metrics

    @property
    def points(self):
        """Metric, labels and point, of all that was told."""
        for export in self.exports:
            for resource in export.resource_metrics:
                own = {a.key: a.value.string_value for a in resource.resource.attributes}
                for metric in resource.scope_metrics[0].metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    for point in data.data_points:
                        more = {a.key: a.value.string_value for a in point.attributes}
                        yield metric.name, {**own, **more}, point

    def total(self, name, **labels):
        """The sum of a counter, or how many values a latency took."""
        asked = {f"stagewatch.{key}": value for key, value in labels.items()}.items()
        total = 0.0
        for metric, told, point in self.points:
            if metric == name and asked <= told.items() and told.get("stagewatch.bound") != "high":
                total += point.count if hasattr(point, "scale") else point.as_double
        return total

    def levels(self, name):
        return [point.as_double for metric, _, point in self.points if metric == name]


def totals(told, **labels):
    """Everything that grows, by the requests it stands for."""
    return {
        "tokens": told.total("stagewatch_generation_tokens_total", **labels) / 10,
        "started": told.total("stagewatch_requests_started_total", **labels),
        "ttft": told.total("stagewatch_ttft_seconds", **labels),
        "e2e": told.total("stagewatch_e2e_seconds", **labels),
    }


class World:
    """A receiver on a clock of its own, and the intake behind it."""

    def __init__(self, keeper=None, told=None, clock=None, **settings):
        self.told, self.clock = told or Told(), clock or Clock()
        self.receiver = Receiver(
            RemoteWriteSettings(settle_s=10, patience_s=60, **settings),
            self.told,
            keeper=keeper,
            clock_s=self.clock,
            now_ns=lambda: (BEGIN_MS + 10**9) * 1_000_000,
        )

    def write(self, at_ms, samples):
        """Labels and values as a request would bring them; None ends a series."""
        taken = []
        for labels, value in samples:
            stream = self.receiver.series(labels)
            if stream is not None:
                taken.append((stream, at_ms, value))
        self.receiver.take(taken)

    def wait(self, seconds):
        self.clock.s += seconds
        self.receiver.read()

    def counts(self):
        return Counter(
            {
                name.removeprefix("remote_write_").removesuffix("_total"): value
                for name, value in self.receiver.counts().items()
            }
        )
