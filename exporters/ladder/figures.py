"""What the samples of a run, and the runs of a step, say: quantiles, rates, tokens, failures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from exporters.ladder.objective import Goal, is_good
from exporters.ladder.plan import Step
from exporters.ladder.rank import QUANTILES, Ranked, Spread, ranked, spread
from exporters.ladder.sample import Floats, Phase, Sample

__all__ = ["LATENCIES", "Client", "Run", "RunFigures", "StepFigures", "run_figures"]

LATENCIES = ("ttft", "tpot", "itl", "e2e", "ttft_intended", "e2e_intended")
"""`_intended`: since the request was due, not since we came to send it. The user's figure."""

_LATE_S, _LATE_SHARE, _BUSY = 0.02, 0.25, 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How well we ourselves kept up: how late our loop was (P95), and our share of one core."""

    late_s: float
    cpu_ratio: float

    def is_bottleneck(self, itl_s: float | None) -> bool:
        """Late by more than 20 ms and a quarter of the median gap, or nine tenths of a core."""
        allowed_s = max(_LATE_S, _LATE_SHARE * (itl_s or 0.0))
        return self.late_s > allowed_s or self.cpu_ratio >= _BUSY


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One run as it happened.

    In the window [opened, closed) all load was there: it opens with the first measured request and
    closes with the first one after the last of them. `stopped` says why a run ended early.
    """

    number: int
    samples: tuple[Sample, ...]
    opened_at_s: float | None
    closed_at_s: float | None
    client: Client
    stopped: str = ""

    @property
    def measured(self) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if sample.phase is Phase.MEASURED)

    @property
    def window_s(self) -> float | None:
        if self.opened_at_s is None or self.closed_at_s is None:
            return None
        return self.closed_at_s - self.opened_at_s or None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunFigures:
    """The figures of one run. `requests` are all that were measured, failed ones too."""

    number: int
    requests: int
    failures: Mapping[str, int]
    good: int | None
    window_s: float | None
    latencies: Mapping[str, Mapping[str, Ranked | None]]
    mean_ttft_s: float | None
    mean_e2e_s: float | None
    requests_hz: float | None
    tokens_hz: float | None
    prompt_tokens_hz: float | None
    goodput_hz: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    chunks: float | None
    ttfts_s: Floats
    client: Client
    stopped: str

    @property
    def in_flight(self) -> float | None:
        """Requests on their way at a time, by Little's law: rate x mean duration."""
        return _product(self.requests_hz, self.mean_e2e_s)

    @property
    def client_is_bottleneck(self) -> bool:
        itl = self.latencies["itl"]["p50"]
        return self.client.is_bottleneck(itl.value_s if itl is not None else None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepFigures:
    """All runs of one step, and each figure as the median of the runs with its ends."""

    step: Step
    runs: tuple[RunFigures, ...]

    def latency(self, metric: str, quantile: str) -> Spread:
        """A run whose quantile fell on a failed request ranks as the slowest."""
        found = [run.latencies[metric][quantile] for run in self.runs]
        return spread([each.value_s for each in found if each is not None])

    def figure(self, name: str) -> Spread:
        """A rate or a mean; runs that do not have it are left out."""
        values: list[float | None] = [getattr(run, name) for run in self.runs]
        return spread([value for value in values if value is not None])

    @property
    def requests(self) -> int:
        return sum(run.requests for run in self.runs)

    @property
    def failures(self) -> Counter[str]:
        return sum((Counter(run.failures) for run in self.runs), Counter())

    @property
    def good(self) -> int | None:
        """Of all runs; None without objectives."""
        counted = [run.good for run in self.runs if run.good is not None]
        return sum(counted) if counted else None

    @property
    def is_believed(self) -> bool:
        """False where most runs were slowed down by ourselves."""
        ours = sum(run.client_is_bottleneck for run in self.runs)
        return 2 * ours <= len(self.runs)

    @property
    def late_s(self) -> float:
        """How late we ourselves were at worst."""
        return max((run.client.late_s for run in self.runs), default=0.0)

    @property
    def stopped(self) -> str:
        return next((run.stopped for run in self.runs if run.stopped), "")


def run_figures(run: Run, step: Step, goal: Goal | None) -> RunFigures:
    """All figures of one run; of an open loop the objectives are judged from the intended time."""
    measured = run.measured
    whole = [sample for sample in measured if sample.ok]
    conditions = goal.conditions if goal is not None else ()
    judged = (is_good(each, conditions, from_intended=step.is_open) for each in measured)
    good = sum(judged) if goal is not None else None
    window_s = run.window_s
    requests_hz = _per_second(_answered(run, step), window_s)
    prompt_tokens = _mean(sample.prompt_tokens for sample in whole)
    return RunFigures(
        number=run.number,
        requests=len(measured),
        failures=Counter(sample.failure for sample in measured if not sample.ok),
        good=good,
        window_s=window_s,
        latencies=_latencies(measured),
        mean_ttft_s=_mean(sample.ttft_s for sample in whole),
        mean_e2e_s=_mean(sample.e2e_s for sample in whole),
        requests_hz=requests_hz,
        tokens_hz=_per_second(_tokens_within(run), window_s),
        prompt_tokens_hz=_product(requests_hz, prompt_tokens),
        goodput_hz=_goodput_hz(good, len(whole), requests_hz),
        prompt_tokens=prompt_tokens,
        output_tokens=_mean(sample.tokens for sample in whole),
        chunks=_mean(len(sample.chunk_at_s) for sample in whole),
        ttfts_s=np.array([each.ttft_s for each in whole if each.ttft_s is not None], np.float64),
        client=run.client,
        stopped=run.stopped,
    )


def _latencies(measured: Sequence[Sample]) -> dict[str, dict[str, Ranked | None]]:
    """A failed request never got there: it ranks after all that did, in everything but gaps."""
    whole = [sample for sample in measured if sample.ok]
    failed = len(measured) - len(whole)
    gaps_s = [sample.gaps_s for sample in measured]
    values = {
        "ttft": (_values(sample.ttft_s for sample in whole), failed),
        "tpot": (_values(sample.tpot_s for sample in whole), failed),
        "itl": (np.concatenate([*gaps_s, np.zeros(0)]), 0),
        "e2e": (_values(sample.e2e_s for sample in whole), failed),
        "ttft_intended": (_values(_later(each, each.ttft_s) for each in whole), failed),
        "e2e_intended": (_values(_later(each, each.e2e_s) for each in whole), failed),
    }
    return {
        name: {label: ranked(found, q, never=never) for label, q in QUANTILES.items()}
        for name, (found, never) in values.items()
    }


def _later(sample: Sample, value_s: float | None) -> float | None:
    return value_s + sample.waited_s if value_s is not None else None


def _values(values: Iterable[float | None]) -> Floats:
    return np.array([value for value in values if value is not None], np.float64)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _goodput_hz(good: int | None, whole: int, requests_hz: float | None) -> float | None:
    """The good ones of all answers; only a whole answer can be good."""
    if good is None or requests_hz is None:
        return None
    return requests_hz * good / whole if whole else 0.0


def _product(one: float | None, other: float | None) -> float | None:
    return one * other if one is not None and other is not None else None


def _per_second(count: float, window_s: float | None) -> float | None:
    return count / window_s if window_s is not None else None


def _answered(run: Run, step: Step) -> float:
    """Answers in the window. Of a closed loop each request counts by the share that lies in it.

    why shares: workers walk in groups, and whether the last group just ended or is about to end
    would change a count by as many as there are workers. The sum of shares is Little's law.
    """
    if run.opened_at_s is None or run.closed_at_s is None:
        return 0.0
    since_s, until_s = run.opened_at_s, run.closed_at_s
    if step.is_open:
        return sum(each.ok and since_s < each.ended_at_s <= until_s for each in run.samples)
    return sum(each.share_between(since_s, until_s) for each in run.samples if each.ok)


def _tokens_within(run: Run) -> float:
    if run.opened_at_s is None or run.closed_at_s is None:
        return 0.0
    since_s, until_s = run.opened_at_s, run.closed_at_s
    return sum(sample.tokens_between(since_s, until_s) for sample in run.samples)
