"""A poller on a clock of its own, that speaks with the fake through boto3."""

import random
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import boto3

from exporters.cloudwatch.aws import AwsSource
from exporters.cloudwatch.call import Caller
from exporters.cloudwatch.poller import Poller
from exporters.cloudwatch.settings import CloudWatchSettings
from tests.fake_cloudwatch.account import ACCOUNT
from tests.fake_cloudwatch.server import fake_cloudwatch

__all__ = [
    "BEDROCK",
    "MODEL",
    "SAGEMAKER",
    "T0",
    "VARIANT",
    "Clock",
    "kept",
    "nobody",
    "poller_of",
    "polling",
    "settings_of",
    "totals",
]

T0 = 1_780_000_020  # a whole minute
VARIANT = {"EndpointName": "llm-prod", "VariantName": "AllTraffic"}
MODEL = {"ModelId": "us.anthropic.claude-sonnet-4-20250514-v1:0"}
SAGEMAKER = {"kind": "sagemaker", "dimensions": VARIANT, "service": "chat", "gpus": 4}
BEDROCK = {"kind": "bedrock", "dimensions": MODEL, "service": "assistant"}


@dataclass
class Clock:
    """Sleeping moves it, and nothing else does."""

    now_s: float

    def __call__(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


def settings_of(*endpoints, url=None, scope=(), **more):
    told = {"account": ACCOUNT, "region": "us-east-1", "endpoints": endpoints, "endpoint_url": url}
    return CloudWatchSettings.model_validate({"scopes": [{**told, **dict(scope)}], **more})


@lru_cache(maxsize=1)
def nobody():
    """A session of credentials that open nothing."""
    return boto3.session.Session(
        aws_access_key_id="nobody",
        aws_secret_access_key="nothing",  # noqa: S106 - of nobody
        region_name="us-east-1",
    )


def poller_of(settings, clock, *, caller=None, seed=1):
    (scope,) = settings.scopes
    caller = caller or Caller(
        settings.calls_per_s,
        sleep=clock.sleep,
        clock=clock,
        jitter=random.Random(seed).uniform,  # noqa: S311 - the same in every run
    )
    return Poller(settings, scope, AwsSource(scope, session=nobody()), caller)


@contextmanager
def polling(*endpoints, at_s=T0, scope=(), account=(), **more):
    """`(poller, fake's account, clock)`; everything of one account and region."""
    clock = Clock(at_s)
    with fake_cloudwatch(now=clock, **dict(account)) as fake:
        settings = settings_of(*endpoints, url=fake.url, scope=scope, **more)
        poller = poller_of(settings, clock)
        try:
            yield poller, fake.account, clock
        finally:
            poller._source.close()


def kept(points, into=None):
    """As a store keeps them: the last word on every series and period."""
    rows = {} if into is None else into
    for point in points:
        rows[point.key, point.start_s] = point
    return rows


def totals(rows, name):
    """Samples and sum of one metric over all that is kept."""
    told = [point.statistics for (key, _), point in rows.items() if key.name == name]
    return (
        sum(each.get("SampleCount", 0) for each in told),
        sum(each.get("Sum", 0.0) for each in told),
    )
