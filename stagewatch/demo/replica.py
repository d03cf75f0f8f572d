"""One simulated replica: an engine, the API process around it, its page and its spans."""

import random
from collections.abc import Callable, Sequence

from stagewatch.demo.blueprint import Replica
from stagewatch.demo.calendar import Calendar
from stagewatch.demo.engine import BLOCK_TOKENS, Engine, Job, Speed
from stagewatch.demo.engine_page import EnginePage, Finished, Levels
from stagewatch.demo.spans import EngineSpan

__all__ = ["Call", "SimulatedReplica"]

SECOND_NS = 1_000_000_000


class Call(Job):
    """A request in one replica: the job of its engine, and when its API process saw it."""

    __slots__ = (
        "arrived_s",
        "gone",
        "handling_s",
        "load",
        "on_end",
        "on_first",
        "parent_id",
        "trace_id",
        "ttft_s",
    )

    def __init__(
        self,
        prompt_tokens: int,
        output_tokens: int,
        *,
        cached_tokens: int,
        remote: bool,
        trace_id: bytes,
        parent_id: bytes,
        on_first: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(prompt_tokens, output_tokens, cached_tokens=cached_tokens, remote=remote)
        self.trace_id = trace_id
        self.parent_id = parent_id
        self.on_first = on_first
        self.on_end = on_end
        self.arrived_s = 0.0
        self.handling_s = 0.0
        self.load = 0
        self.ttft_s = 0.0
        self.gone = False  # the user has hung up

    @property
    def remote_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens - 1 if self.remote else 0


class SimulatedReplica:
    """What a user's request meets: tokeniser, engine, detokeniser, and the telemetry of all."""

    def __init__(
        self,
        about: Replica,
        speed: Speed,
        *,
        calendar: Calendar,
        noise: Sequence[float],
        seed: int,
        started_at_ns: int,
        emit: Callable[[EngineSpan], None],
    ) -> None:
        self.about = about
        self.outstanding_tokens = 0
        self.engine = Engine(calendar, speed, noise, self)
        self.page = EnginePage(
            model=about.model,
            created_s=started_at_ns / SECOND_NS,
            kv_blocks=speed.kv_blocks,
            block_tokens=BLOCK_TOKENS,
        )
        self._calendar = calendar
        self._random = random.Random(f"{about.name}/{seed}")
        self._started_at_ns = started_at_ns
        self._emit = emit

    def render(self) -> str:
        """The page as it stands now."""
        engine = self.engine
        return self.page.render(
            Levels(
                running=engine.running,
                waiting=engine.waiting,
                deferred=engine.deferred,
                kv_usage=engine.kv_usage,
            )
        )

    def receive(self, call: Call) -> None:
        """A request has come in: tokenise it, then hand it to the engine."""
        now_s = self._calendar.now_s
        call.arrived_s = now_s
        call.handling_s = self._random.lognormvariate(-6.4, 0.4)  # 1.7 ms at the median
        call.load = call.prompt_tokens - call.cached_tokens + call.output_tokens
        self.outstanding_tokens += call.load
        self.page.looked_up(
            prompt_tokens=call.prompt_tokens,
            cached_tokens=call.cached_tokens,
            remote_tokens=call.remote_tokens,
        )
        tokenising_s = self._random.lognormvariate(-5.9, 0.4) + 7e-7 * call.prompt_tokens
        self._calendar.at(now_s + tokenising_s, self.engine.submit, call)

    def refuse(self, prompt_tokens: int) -> None:
        """A request that can never be served: HTTP 400, and nothing in the engine."""
        self._answered("4xx", 0.002, prompt_tokens)

    def hang_up(self, call: Call) -> None:
        """The user is gone: the request leaves no trace but its first token and HTTP's count."""
        if call.gone:
            return
        call.gone = True
        self.engine.abort(call)
        self.outstanding_tokens -= call.load
        self._answered("2xx", self._calendar.now_s - call.arrived_s, call.prompt_tokens)

    def stepped(self, *, prompt_tokens: int, new_tokens: int) -> None:
        self.page.stepped(prompt_tokens=prompt_tokens, new_tokens=new_tokens)

    def gaps(self, seconds: float, count: int) -> None:
        self.page.gaps(seconds, count)

    def preempted(self, job: Job) -> None:
        del job
        self.page.preempted()

    def first_token(self, job: Job) -> None:
        call = _call(job)
        self.page.prefilled(
            prompt_tokens=call.prompt_tokens,
            cached_tokens=call.cached_tokens,
            remote_tokens=call.remote_tokens,
        )
        self._calendar.at(self._calendar.now_s + call.handling_s, self._told_first, call)

    def ended(self, job: Job) -> None:
        call = _call(job)
        self._calendar.at(self._calendar.now_s + call.handling_s, self._told_end, call)

    def _told_first(self, call: Call) -> None:
        """The API process has the first token in its hands."""
        if call.gone:
            return
        call.ttft_s = self._calendar.now_s - call.arrived_s
        self.page.first_token(call.ttft_s)
        call.on_first()

    def _told_end(self, call: Call) -> None:
        """The API process has the last token: page and span say the same numbers."""
        if call.gone:
            return
        now_s = self._calendar.now_s
        self.outstanding_tokens -= call.load
        done = _finished(call, now_s, self._random.random())
        self.page.finished(done)
        self._answered("2xx", done.e2e_s, call.prompt_tokens)
        written_s = 0.0003 + 0.0008 * self._random.random()
        start_at_ns = self._started_at_ns + round(call.arrived_s * SECOND_NS)
        self._emit(
            EngineSpan(
                replica=self.about,
                trace_id=call.trace_id,
                span_id=self._random.getrandbits(64).to_bytes(8, "big"),
                parent_id=call.parent_id,
                start_at_ns=start_at_ns,
                end_at_ns=start_at_ns + round((done.e2e_s + written_s) * SECOND_NS),
                ttft_s=call.ttft_s,
                finished=done,
            )
        )
        call.on_end()

    def _answered(self, status: str, seconds: float, prompt_tokens: int) -> None:
        at_s = self._started_at_ns / SECOND_NS + self._calendar.now_s
        self.page.answered(status=status, seconds=seconds, at_s=at_s, prompt_tokens=prompt_tokens)


def _call(job: Job) -> Call:
    """An engine only ever tells of what it was given."""
    if not isinstance(job, Call):
        raise TypeError("an engine told of a job that was never received")
    return job


def _finished(call: Call, now_s: float, chance: float) -> Finished:
    scheduled_s, first_s = call.scheduled_s, call.first_s
    if scheduled_s is None or first_s is None:
        raise ValueError("a request cannot end before it began")
    limited = call.output_tokens == 1 or chance < 0.12
    return Finished(
        e2e_s=now_s - call.arrived_s,
        queue_s=scheduled_s - call.queued_s,
        prefill_s=first_s - scheduled_s,
        decode_s=call.last_s - first_s,
        inference_s=call.last_s - scheduled_s,
        prompt_tokens=call.prompt_tokens,
        computed_tokens=call.prompt_tokens - call.cached_tokens - call.remote_tokens,
        output_tokens=call.output_tokens,
        max_tokens=call.output_tokens if limited else 4096,
        preemptions=call.preemptions,
        finish_reason="length" if limited else "stop",
    )
