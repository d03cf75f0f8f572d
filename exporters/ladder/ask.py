"""The probe's client as the ladder uses it: prompts that share nothing, answers as samples."""

import random
import time
from collections.abc import Callable, Mapping

import numpy as np

from exporters.ladder.plan import Shape
from exporters.ladder.sample import Phase, Sample
from exporters.probe.client import exchange
from exporters.probe.connection import Connection
from exporters.probe.exchange import Exchange
from exporters.probe.prompt import WORDS, Prompt
from exporters.probe.settings import ProbeTarget

__all__ = ["Asker", "EndpointLane", "Prompts", "sample_of"]

_NAMED = {"http_429": "rate limited (HTTP 429)", "http_503": "turned away (HTTP 503)"}


class Prompts:
    """Texts of a chosen number of words. Each begins differently, so that no prefix is cached.

    The same seed makes the same texts; `shared_prefix` makes all of a shape begin alike.
    """

    def __init__(self, *, seed: str, shared_prefix: bool = False) -> None:
        # why not secrets: the same seed asks the same things
        self._chance = random.Random(seed)  # noqa: S311
        self._shared_prefix = shared_prefix

    def text(self, words: int) -> str:
        """So many words; the first one is a number that no other prompt begins with."""
        own = f"{self._chance.getrandbits(40):x}"
        chance = random.Random(words) if self._shared_prefix else self._chance  # noqa: S311
        drawn = chance.choices(WORDS, k=max(words - 1, 0))
        return " ".join([*drawn, own] if self._shared_prefix else [own, *drawn])

    def fraction(self) -> float:
        """Of an answer's length, for a worker's first request."""
        return self._chance.random()


class Asker:
    """What to ask of a target, and what is done with every exchange that comes back."""

    def __init__(
        self,
        target: ProbeTarget,
        prompts: Prompts,
        *,
        words: Mapping[Shape, int],
        timeout_s: float,
        kept: Callable[[Exchange, Shape], None],
    ) -> None:
        self.target, self.timeout_s = target, timeout_s
        self._prompts, self._words, self._kept = prompts, words, kept

    def lane(self, shape: Shape, *, begins_short: bool = False) -> "EndpointLane":
        return EndpointLane(self, shape, begins_short=begins_short)

    def prompt(self, shape: Shape, *, short: bool) -> Prompt:
        """The next text; a `short` answer has any length up to the full one."""
        share = self._prompts.fraction() if short else 1.0
        most = max(round(shape.output_tokens * share), 1)
        return Prompt(text=self._prompts.text(self._words[shape]), max_tokens=most)

    def keep(self, done: Exchange, shape: Shape) -> None:
        self._kept(done, shape)


class EndpointLane:
    """One kept connection to the endpoint.

    A lane that `begins_short` asks for an answer of any length first: workers that start together
    and all get answers of one length would stay in step, as no users do.
    """

    def __init__(self, asker: Asker, shape: Shape, *, begins_short: bool) -> None:
        self._asker, self._shape, self._short = asker, shape, begins_short
        self._connection = Connection(asker.target)

    async def ask(self, *, phase: Phase, intended_at_s: float) -> Sample:
        prompt = self._asker.prompt(self._shape, short=self._short)
        self._short = False
        done = await exchange(
            self._asker.target,
            prompt,
            connection=self._connection,
            timeout_s=self._asker.timeout_s,
        )
        now_s, now_ns = time.perf_counter(), time.time_ns()
        self._asker.keep(done, self._shape)
        ago_s = 0.0 if done.sent_at_ns is None else (now_ns - done.sent_at_ns) / 1e9
        return sample_of(done, phase=phase, intended_at_s=intended_at_s, sent_at_s=now_s - ago_s)

    async def close(self) -> None:
        await self._connection.close()


def sample_of(done: Exchange, *, phase: Phase, intended_at_s: float, sent_at_s: float) -> Sample:
    """An exchange on our clock. An answer whose first token cannot be told is no answer."""
    sent_at_s = max(sent_at_s, intended_at_s)
    first = () if done.ttft_s is None else (done.ttft_s, *done.gaps_s)
    carried = done.chunk_tokens
    return Sample(
        phase=phase,
        intended_at_s=intended_at_s,
        sent_at_s=sent_at_s,
        ended_at_s=sent_at_s + (done.lasted_s or 0.0),
        chunk_at_s=sent_at_s + np.cumsum(np.array(first, np.float64)),
        chunk_tokens=np.array(carried, np.float64) if carried is not None else None,
        streamed_tokens=done.streamed_tokens if done.counted_tokens else None,
        output_tokens=done.output_tokens if done.counted_tokens else None,
        prompt_tokens=done.prompt_tokens,
        failure=_failure(done),
    )


def _failure(done: Exchange) -> str:
    if done.ok and done.ttft_s is not None:
        return ""
    reason = done.reason or ("no_token" if done.ok else done.outcome.value)
    return _NAMED.get(reason, reason)
