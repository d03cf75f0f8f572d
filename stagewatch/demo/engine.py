"""One simulated inference engine: a scheduler that batches as vLLM's does.

A step takes every decoding request one token further and fills what is left of its token budget
with prompt chunks, first come first served. Requests decode from the step that ends their prompt;
when the KV blocks run out the newest decoding request is thrown out and computes again. Decoding
requests cost nothing per step: who ends when, and who needs a block when, is known on joining.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from stagewatch.demo.calendar import Calendar

__all__ = ["BLOCK_TOKENS", "Engine", "Job", "Listener", "Speed", "State"]

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How long a step takes and how much an engine holds."""

    step_s: float
    per_prompt_token_s: float
    per_token_and_context_s: float
    per_sequence_s: float
    per_kv_token_s: float
    kv_blocks: int
    max_sequences: int = 256
    step_tokens: int = 8192
    load_s: float = 0.004
    load_per_token_s: float = 0.000016

    def wider(self, factor: float) -> "Speed":
        """A machine that carries `factor` times the load in the same time per step."""
        return Speed(
            step_s=self.step_s,
            per_prompt_token_s=self.per_prompt_token_s / factor,
            per_token_and_context_s=self.per_token_and_context_s / factor,
            per_sequence_s=self.per_sequence_s / factor,
            per_kv_token_s=self.per_kv_token_s / factor,
            kv_blocks=int(self.kv_blocks * factor),
            max_sequences=int(self.max_sequences * factor),
            step_tokens=int(self.step_tokens * factor),
            load_s=self.load_s,
            load_per_token_s=self.load_per_token_s,
        )


class State(Enum):
    """Where in the engine a request is."""

    COMING = auto()
    WAITING = auto()
    LOADING = auto()
    PREFILLING = auto()
    DECODING = auto()
    ENDED = auto()
    ABORTED = auto()


class Job:
    """A request as one engine sees it; instants are on the simulation's clock."""

    __slots__ = (
        "blocks",
        "cached_tokens",
        "computed_tokens",
        "end_at_step",
        "first_s",
        "generated_tokens",
        "joined_step",
        "last_s",
        "output_tokens",
        "phase",
        "preemptions",
        "prompt_tokens",
        "queued_s",
        "remote",
        "scheduled_s",
        "state",
    )

    def __init__(
        self,
        prompt_tokens: int,
        output_tokens: int,
        *,
        cached_tokens: int = 0,
        remote: bool = False,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.cached_tokens = cached_tokens
        self.remote = remote  # the KV cache comes from a prefill engine
        self.queued_s = 0.0
        self.scheduled_s: float | None = None
        self.first_s: float | None = None
        self.last_s = 0.0
        self.state = State.COMING
        self.computed_tokens = 0
        self.generated_tokens = 0
        self.preemptions = 0
        self.blocks = 0
        self.joined_step = 0
        self.end_at_step = 0
        self.phase = 0


class Listener(Protocol):
    """Who is told what an engine did."""

    def stepped(self, *, prompt_tokens: int, new_tokens: int) -> None: ...
    def gaps(self, seconds: float, count: int) -> None: ...
    def preempted(self, job: Job) -> None: ...
    def first_token(self, job: Job) -> None: ...
    def ended(self, job: Job) -> None: ...


class Engine:
    """One replica. Everything happens through the calendar; the same calls, the same outcome."""

    def __init__(
        self, calendar: Calendar, speed: Speed, noise: Sequence[float], listener: Listener
    ) -> None:
        self.slowdown = 1.0
        self._halted = self._missed_end = False
        self._calendar = calendar
        self._speed = speed
        self._noise = noise
        self._listener = listener
        self._waiting: deque[Job] = deque()
        self._loading: set[Job] = set()
        self._prefilling: list[Job] = []
        self._decoding: dict[Job, None] = {}
        self._ending: dict[int, list[Job]] = {}
        self._crossing = [0] * BLOCK_TOKENS
        self._chunks: list[tuple[Job, int]] = []
        self._aborting: list[Job] = []
        self._stepping = False
        self._step = 0
        self._stepped_s = 0.0
        self._kv_tokens = 0
        self._free_blocks = speed.kv_blocks

    @property
    def running(self) -> int:
        return len(self._prefilling) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Those that wait for room; those whose cache is on its way are `deferred`."""
        return len(self._waiting)

    @property
    def deferred(self) -> int:
        return len(self._loading)

    @property
    def kv_usage(self) -> float:
        return 1.0 - self._free_blocks / self._speed.kv_blocks

    @property
    def steps(self) -> int:
        return self._step

    def halt(self, *, halted: bool) -> None:
        """The process hangs, or goes on where it stood; what arrives meanwhile only waits."""
        self._halted = halted
        if self._missed_end:
            self._end()
        else:
            self._drop_aborted()
            self._begin()

    def submit(self, job: Job) -> None:
        """Queue a request that has just arrived in the engine."""
        if job.state is State.ABORTED:
            return
        job.queued_s = self._calendar.now_s
        job.state = State.WAITING
        self._waiting.append(job)
        self._begin()

    def abort(self, job: Job) -> None:
        """Drop a request whose user is gone: at once, or when the step or the hang ends."""
        if job.state in (State.ENDED, State.ABORTED):
            return
        if self._halted or (self._stepping and job.state in (State.PREFILLING, State.DECODING)):
            self._aborting.append(job)
        else:
            self._drop(job)
            self._begin()

    def _begin(self) -> None:
        """Start the next step if there is anything to do and none is in progress."""
        if self._stepping or self._halted:
            return
        preempted = self._grow()
        budget = self._speed.step_tokens - len(self._decoding)
        self._chunks = self._continued(budget)
        if not preempted:
            self._admit(budget - sum(tokens for _, tokens in self._chunks))
        if not self._chunks and not self._decoding:
            return
        self._stepping = True
        self._stepped_s = self._calendar.now_s
        self._calendar.at(self._calendar.now_s + self._duration_s(), self._end)

    def _grow(self) -> bool:
        """Take the blocks that this step's tokens need; throw the newest out while none are left."""
        preempted = False
        while self._crossing[(self._step + 1) % BLOCK_TOKENS] > self._free_blocks:
            self._preempt(next(reversed(self._decoding)))
            preempted = True
        self._free_blocks -= self._crossing[(self._step + 1) % BLOCK_TOKENS]
        return preempted

    def _continued(self, budget: int) -> list[tuple[Job, int]]:
        """The next chunks of prompts that are under way."""
        chunks = []
        for job in self._prefilling:
            tokens = min(_missing(job), budget)
            if tokens > 0:
                chunks.append((job, tokens))
                budget -= tokens
        return chunks

    def _admit(self, budget: int) -> None:
        """Take waiting requests in while tokens, sequences and blocks allow; never out of turn."""
        while self._waiting and budget > 0:
            job = self._waiting[0]
            blocks = -(-(job.prompt_tokens + job.generated_tokens + 1) // BLOCK_TOKENS)
            seats = self._speed.max_sequences - self.running - len(self._loading)
            if blocks > self._free_blocks or seats <= 0:
                return
            self._waiting.popleft()
            self._free_blocks -= blocks
            job.blocks = blocks
            if job.scheduled_s is None:
                job.scheduled_s = self._calendar.now_s
            if job.remote and not job.preemptions:
                self._load(job)
                continue
            job.computed_tokens = job.cached_tokens
            tokens = min(_missing(job), budget)
            budget -= tokens
            self._enter(job)
            self._chunks.append((job, tokens))

    def _enter(self, job: Job) -> None:
        job.state = State.PREFILLING
        self._prefilling.append(job)

    def _load(self, job: Job) -> None:
        """Fetch the KV cache of a prompt that another engine has computed."""
        job.state = State.LOADING
        self._loading.add(job)
        speed = self._speed
        load_s = speed.load_s + speed.load_per_token_s * job.prompt_tokens
        self._calendar.at(self._calendar.now_s + load_s, self._loaded, job)

    def _loaded(self, job: Job) -> None:
        if job.state is not State.LOADING:
            return
        self._loading.remove(job)
        job.computed_tokens = job.prompt_tokens - 1  # the last token's logits are computed here
        self._enter(job)
        self._begin()

    def _duration_s(self) -> float:
        speed = self._speed
        prompt_s = sum(
            tokens
            * (speed.per_prompt_token_s + speed.per_token_and_context_s * job.computed_tokens)
            for job, tokens in self._chunks
        )
        decode_s = (
            speed.per_sequence_s * len(self._decoding) + speed.per_kv_token_s * self._kv_tokens
        )
        noise = self._noise[self._step % len(self._noise)]
        return (speed.step_s + prompt_s + decode_s) * self.slowdown * noise

    def _end(self) -> None:
        """Every decoding request has one token more; prompts that are whole have their first."""
        self._missed_end = self._halted
        if self._halted:
            return
        now_s = self._calendar.now_s
        self._stepping = False
        self._step += 1
        decoding = len(self._decoding)
        self._kv_tokens += decoding
        if decoding:
            self._listener.gaps(now_s - self._stepped_s, decoding)
        whole = [job for job, tokens in self._chunks if self._computed(job, tokens)]
        self._listener.stepped(
            prompt_tokens=sum(job.prompt_tokens for job in whole if job.first_s is None),
            new_tokens=decoding + len(whole),
        )
        for job in self._ending.pop(self._step, ()):
            if job.state is State.DECODING and job.end_at_step == self._step:
                self._finish(job)
        for job in whole:
            self._first(job)
        self._chunks = []
        self._drop_aborted()
        self._begin()

    def _drop_aborted(self) -> None:
        while self._aborting and not (self._halted or self._stepping):
            if (job := self._aborting.pop(0)).state not in (State.ENDED, State.ABORTED):
                self._drop(job)

    @staticmethod
    def _computed(job: Job, tokens: int) -> bool:
        job.computed_tokens += tokens
        return _missing(job) == 0

    def _first(self, job: Job) -> None:
        """The token that ends a prompt: the first one, or the next one after a preemption."""
        now_s = self._calendar.now_s
        self._prefilling.remove(job)
        job.generated_tokens += 1
        job.state = State.DECODING
        if job.first_s is None:
            job.first_s = now_s
            self._listener.first_token(job)
        else:
            self._listener.gaps(now_s - job.last_s, 1)
        job.last_s = now_s
        left = job.output_tokens - job.generated_tokens
        if left <= 0:
            self._free(job)
            self._announce(job)
            return
        job.joined_step = self._step
        job.end_at_step = self._step + left
        self._ending.setdefault(job.end_at_step, []).append(job)
        tokens = job.prompt_tokens + job.generated_tokens
        self._kv_tokens += tokens
        job.phase = (self._step + 1 - tokens) % BLOCK_TOKENS
        self._crossing[job.phase] += 1
        self._decoding[job] = None

    def _finish(self, job: Job) -> None:
        self._leave(job)
        job.last_s = self._calendar.now_s
        self._announce(job)

    def _announce(self, job: Job) -> None:
        job.state = State.ENDED
        self._listener.ended(job)

    def _leave(self, job: Job) -> None:
        """Take a decoding request out of the batch, with all that it holds."""
        del self._decoding[job]
        self._crossing[job.phase] -= 1
        gained = self._step - job.joined_step
        tokens = job.prompt_tokens + job.generated_tokens
        self._kv_tokens -= tokens + gained
        job.generated_tokens += gained
        job.blocks += (tokens + gained + BLOCK_TOKENS - 1) // BLOCK_TOKENS
        job.blocks -= (tokens + BLOCK_TOKENS - 1) // BLOCK_TOKENS
        self._free(job)

    def _free(self, job: Job) -> None:
        self._free_blocks += job.blocks
        job.blocks = 0

    def _preempt(self, job: Job) -> None:
        """Back to the head of the queue; its cache is gone and must be computed again."""
        self._leave(job)
        job.last_s = self._calendar.now_s
        job.preemptions += 1
        job.computed_tokens = 0
        job.state = State.WAITING
        self._waiting.appendleft(job)
        self._listener.preempted(job)

    def _drop(self, job: Job) -> None:
        if job.state is State.WAITING:
            self._waiting.remove(job)
        elif job.state is State.LOADING:
            self._loading.remove(job)
            self._free(job)
        elif job.state is State.PREFILLING:
            self._prefilling.remove(job)
            self._free(job)
        elif job.state is State.DECODING:
            self._leave(job)
        job.state = State.ABORTED


def _missing(job: Job) -> int:
    """Tokens that must be computed before the next one can be told."""
    return job.prompt_tokens + job.generated_tokens - job.computed_tokens
