"""A server that is only arithmetic: so many slots, the rest waits in line. No clock, no network."""

import heapq
import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from exporters.ladder.cost import Price
from exporters.ladder.course import Course
from exporters.ladder.figures import Client, Run, StepFigures, run_figures
from exporters.ladder.measurement import Measurement
from exporters.ladder.objective import parse_goal
from exporters.ladder.plan import Guards, Plan, Shape, Step
from exporters.ladder.sample import Phase, Sample

__all__ = ["QUICK", "SHORT", "Server", "climbed", "measurement", "run_of", "sample"]

SHORT = Shape(name="short", prompt_tokens=128, output_tokens=21)
QUICK = Client(late_s=0.0005, cpu_ratio=0.1)


@dataclass(frozen=True, kw_only=True)
class Server:
    """`share`: how much longer a gap gets with each further request that is being served."""

    slots: int = 4
    first_s: float = 0.05
    gap_s: float = 0.02
    share: float = 0.0
    fails_every: int = 0


def sample(phase="measured", *, at_s=0.0, ttft_s=0.1, gaps_s=(), waited_s=0.0, **more):
    """One request by its durations."""
    sent_s = at_s + waited_s
    chunks_s = sent_s + np.cumsum([ttft_s, *gaps_s]) if ttft_s is not None else np.zeros(0)
    ended_s = float(chunks_s[-1]) if len(chunks_s) else sent_s + 0.01
    told = {"prompt_tokens": 128, "output_tokens": len(chunks_s) or None, **more}
    return Sample(
        phase=Phase(phase),
        intended_at_s=at_s,
        sent_at_s=sent_s,
        ended_at_s=ended_s,
        chunk_at_s=chunks_s,
        **told,
    )


@dataclass
class _Line:
    """The simulation: who is served, who waits, who asks next."""

    server: Server
    course: Course
    chance: random.Random
    tokens: int
    workers: int
    busy: list = field(default_factory=list)
    waiting: deque = field(default_factory=deque)
    asked: int = 0

    def ask(self, now_s):
        self.asked += 1
        self.waiting.append((now_s, self.course.begin(now_s), self.asked))

    def _length(self, number):
        """Like the ladder's own workers: the first answer of each is of any length."""
        return self.tokens if number > self.workers else self.chance.randint(1, self.tokens)

    def serve(self, now_s):
        while self.waiting and len(self.busy) < self.server.slots:
            intended_s, phase, number = self.waiting.popleft()
            server, jitter = self.server, self.chance.uniform(0.98, 1.02)
            gap_s = server.gap_s * (1 + server.share * len(self.busy)) * jitter
            failed = server.fails_every and number % server.fails_every == 0
            made = sample(
                phase,
                at_s=intended_s,
                ttft_s=None if failed else now_s - intended_s + server.first_s * jitter,
                gaps_s=() if failed else [gap_s] * (self._length(number) - 1),
                failure="rate limited (HTTP 429)" if failed else "",
            )
            ends_s = max(made.ended_at_s, now_s + 1e-4)
            heapq.heappush(self.busy, (ends_s, number, made))


def run_of(server, concurrency, *, number=1, requests=100, client=QUICK, tokens=21):
    """One closed run of as many workers."""
    course = Course(warm_up=concurrency, measured=requests, guards=Guards(run_s=1e9))
    chance = random.Random(f"{concurrency} {number}")  # noqa: S311 - the same jitter every time
    line = _Line(server, course, chance, tokens, concurrency)
    for _ in range(concurrency):
        line.ask(0.0)
    line.serve(0.0)
    while not course.is_over:
        ended_s, _, made = heapq.heappop(line.busy)
        course.end(made)
        line.ask(ended_s)
        line.serve(ended_s)
    return Run(
        number=number,
        samples=tuple(course.samples),
        opened_at_s=course.opened_at_s,
        closed_at_s=course.closed_at_s,
        client=client,
        stopped=course.stopped,
    )


def climbed(server, concurrencies, *, goal=None, rounds=3, shape=SHORT, client=None, requests=100):
    """All closed steps of one shape."""
    return tuple(
        StepFigures(
            step=(step := Step(shape=shape, concurrency=each)),
            runs=tuple(
                run_figures(
                    run_of(
                        server,
                        each,
                        number=number,
                        requests=requests,
                        client=client(each) if client else QUICK,
                        tokens=shape.output_tokens,
                    ),
                    step,
                    goal,
                )
                for number in range(1, rounds + 1)
            ),
        )
        for each in concurrencies
    )


def measurement(server=None, *, concurrencies=(1, 2, 4, 8, 16, 32), steps=None, **more):
    """A whole ladder; the same every time."""
    goal = parse_goal(["ttft<=500ms", "itl_p99<=100ms"])
    long = Shape(name="long", prompt_tokens=2048, output_tokens=21)
    found = steps
    if found is None:
        found = (
            *climbed(server or Server(), concurrencies, goal=goal),
            *climbed(
                Server(slots=64, first_s=0.4, share=0.08), concurrencies, goal=goal, shape=long
            ),
        )
    told = {
        "address": "http://127.0.0.1:8000/v1/chat/completions",
        "model": "llama",
        "began_at_ns": 1_800_000_000_000_000_000,
        "lasted_s": 754.0,
        "plan": Plan(shapes=(SHORT, long), concurrencies=concurrencies, price=Price(per_hour=3.6)),
        "goal": goal,
        "rates_hz": (25.0,),
        "steps": found,
        "tokens_per_word": 1.02,
        "shared_prefix": False,
        "ignores_eos": True,
        "seed": "1",
        "requests": 4700,
        "prompt_tokens": 5_113_600,
        "output_tokens": 98_700,
        "spent": None,
    }
    return Measurement(**{**told, **more})
