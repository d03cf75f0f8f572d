"""What the fake knows: samples that become visible when they will, a clock, faults, and a bill."""

import random
import time
from dataclasses import dataclass, field

__all__ = ["ACCOUNT", "Account", "AwsError"]

ACCOUNT = "111122223333"


class AwsError(Exception):
    """An answer that is an error."""

    def __init__(self, code, message, status=400):
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


@dataclass
class Account:
    """Set its fields while it runs; every answer is made from them anew."""

    now: object = time.time
    throttle_next: int = 0  # so many calls are throttled
    throttle_share: float = 0.0  # and this share of all others
    seed: int = 1
    fail_next: list = field(default_factory=list)  # AwsErrors of the next calls, in order
    faults: dict = field(default_factory=dict)  # query id to StatusCode
    fail_page: int | None = None  # calls for the page after this many data points are throttled
    messages: list = field(default_factory=list)  # of the next GetMetricData answers
    endpoints: dict = field(default_factory=dict)  # name to the answer of DescribeEndpoint
    configurations: dict = field(default_factory=dict)  # the same of DescribeEndpointConfig
    components: list = field(default_factory=list)
    prometheus: dict = field(default_factory=dict)  # query to (status, answer)
    calls: list = field(default_factory=list)  # (operation, request body, outcome)
    requests: list = field(default_factory=list)  # (target, content type, authorization)
    billed: int = 0
    samples: dict = field(default_factory=dict)
    ttft_s: float = 0.02
    itl_s: float = 0.005
    tokens: int = 5
    break_at: int | None = None

    def __post_init__(self):
        self.random = random.Random(self.seed)  # noqa: S311 - the same in every run

    def put(self, namespace, name, dimensions, at_s, values, *, visible_at_s=None, account=ACCOUNT):
        """Samples taken at one instant; `visible_at_s` is when CloudWatch begins to count them."""
        key = (account, namespace, name, frozenset(dimensions.items()))
        told = self.samples.setdefault(key, {}).setdefault(int(at_s // 60 * 60), [])
        told.append((at_s if visible_at_s is None else visible_at_s, at_s, list(values)))

    def visible(self, key, since_s, until_s, period_s):
        """Values by start of their period, as far as they can be seen now."""
        minutes, now_s, bins = self.samples.get(key, {}), self.now(), {}
        for minute in range(int(since_s // 60 * 60), int(until_s), 60):
            for visible_at_s, at_s, values in minutes.get(minute, ()):
                start = int(at_s // period_s * period_s)
                if visible_at_s <= now_s and since_s <= start < until_s:
                    bins.setdefault(start, []).extend(values)
        return bins

    def total(self, namespace, name, dimensions, *, account=ACCOUNT):
        """(samples, sum) of everything ever put, visible or not: the truth to compare with."""
        minutes = self.samples.get((account, namespace, name, frozenset(dimensions.items())), {})
        values = [v for told in minutes.values() for *_, more in told for v in more]
        return len(values), sum(values)

    def answered(self, operation):
        """Bodies of the calls that were answered, not throttled or refused."""
        return [body for name, body, outcome in self.calls if (name, outcome) == (operation, "ok")]

    def admit(self, body):
        """Raise what stands in the way of a call before it is looked at."""
        if self.fail_next:
            raise self.fail_next.pop(0)
        if self.throttle_next > 0:
            self.throttle_next -= 1
            raise _throttled()
        if self.throttle_share and self.random.random() < self.throttle_share:
            raise _throttled()
        if self.fail_page is not None and body.get("NextToken"):
            raise _throttled()


def _throttled():
    return AwsError("Throttling", "Rate exceeded")
