"""The simulated fleet: users, routers and replicas on one calendar, pure and deterministic.

`advance(to_s)` lets everything happen that is due; nothing here reads a clock or opens a socket.
The instant 0 of the simulation is `started_at_ns` of the world.
"""

import random
from collections.abc import Callable, Iterator

from stagewatch.demo.blueprint import SERVICES, USER_REGIONS, Pool, Service, UserRegion
from stagewatch.demo.calendar import Calendar
from stagewatch.demo.incidents import HEALTHY, Effects, Incident
from stagewatch.demo.replica import Call, SimulatedReplica
from stagewatch.demo.settings import FleetSettings
from stagewatch.demo.spans import Client, ClientSpan, EngineSpan
from stagewatch.demo.traffic import Arrival, Traffic, load_models

__all__ = ["Fleet", "Visit"]

SECOND_NS = 1_000_000_000
ROUTER_S = 0.0012


class Visit:
    """One user's request, from the click to the last word."""

    __slots__ = (
        "call",
        "down_s",
        "ended",
        "first_s",
        "output_tokens",
        "prompt_tokens",
        "region",
        "replica",
        "reports",
        "sent_s",
        "service",
        "span_id",
        "trace_id",
        "up_s",
    )

    def __init__(
        self, service: Service, region: UserRegion, arrival: Arrival, sent_s: float
    ) -> None:
        self.service = service
        self.region = region
        self.prompt_tokens = arrival.prompt_tokens
        self.output_tokens = arrival.output_tokens
        self.sent_s = sent_s
        self.up_s = 0.0
        self.down_s = 0.0
        self.reports = False
        self.trace_id = b""
        self.span_id = b""
        self.call: Call | None = None
        self.replica: SimulatedReplica | None = None
        self.first_s: float | None = None
        self.ended = False


class Fleet:
    """Every service of the blueprint under the traffic and the faults that the settings ask for."""

    def __init__(
        self,
        settings: FleetSettings,
        *,
        started_at_ns: int,
        incident: Incident | None = None,
        arrivals: dict[str, Iterator[Arrival]] | None = None,
    ) -> None:
        self._settings = settings
        self._started_at_ns = started_at_ns
        # why: the next run of the same seed has the same users, but not the same requests
        self._run = random.Random(f"run/{started_at_ns}").getrandbits(128)
        self._calendar = Calendar()
        self._random = random.Random(f"users/{settings.seed}")
        self._effects = HEALTHY
        self._turns = 0
        self._spans: list[EngineSpan | ClientSpan] = []
        self._arrivals = _invented(settings) | (arrivals or {})
        self._replayed = frozenset(arrivals or ())
        self.replicas = self._built()
        for service in SERVICES:
            self._expect(service)
        if incident is not None:
            start_s = settings.incident_start_s
            end_s = start_s + settings.incident_duration_s
            self._calendar.at(start_s, self._turn, incident.effects)
            self._calendar.at(end_s, self._turn, HEALTHY)

    @property
    def now_s(self) -> float:
        return self._calendar.now_s

    def advance(self, to_s: float) -> None:
        """Let everything happen that is due by then."""
        self._calendar.advance(to_s)

    def drain(self) -> list[EngineSpan | ClientSpan]:
        """The spans that ended since the last time, in the order of their ends."""
        spans, self._spans = self._spans, []
        return spans

    def _built(self) -> dict[str, SimulatedReplica]:
        noise_random = random.Random(f"noise/{self._settings.seed}")
        noise = [noise_random.lognormvariate(0.0, 0.03) for _ in range(1021)]
        return {
            about.name: SimulatedReplica(
                about,
                pool.speed.wider(max(self._settings.speed, 1.0)),
                calendar=self._calendar,
                noise=noise[index * 100 :] + noise[: index * 100],
                seed=self._settings.seed,
                started_at_ns=self._started_at_ns,
                emit=self._spans_add,
            )
            for service in SERVICES
            for pool in service.pools
            for index, about in enumerate(pool.replicas)
        }

    def _spans_add(self, span: EngineSpan | ClientSpan) -> None:
        self._spans.append(span)

    def _turn(self, effects: Effects) -> None:
        """A fault begins or ends."""
        self._effects = effects
        for name, replica in self.replicas.items():
            replica.engine.slowdown = effects.slowdown.get(name, 1.0)
            replica.engine.halt(halted=name in effects.halted)

    def _expect(self, service: Service) -> None:
        """The service's next user."""
        arrival = next(self._arrivals[service.name], None)
        if arrival is None:
            return
        rate = self._settings.speed * self._effects.traffic.get(service.name, 1.0)
        if service.name not in self._replayed:
            rate *= self._settings.load
        at_s = self._calendar.now_s + arrival.gap_s / rate
        self._calendar.at(at_s, self._send, service, arrival)

    def _send(self, service: Service, arrival: Arrival) -> None:
        """A user sends; the request is on its way."""
        self._expect(service)
        visit = self._visit(service, arrival)
        now_s, settings = self._calendar.now_s, self._settings
        self._calendar.at(now_s + visit.up_s, self._reach, visit)
        leaves = self._random.random() < settings.hang_up_share
        patience_s = self._random.uniform(0.5, 1.0) * settings.patience_s
        self._calendar.at(now_s + patience_s, self._lose_patience, visit)
        if leaves:
            self._calendar.at(now_s + self._random.expovariate(0.4), self._hang_up, visit)

    def _visit(self, service: Service, arrival: Arrival) -> Visit:
        draw = self._random
        region = draw.choices(USER_REGIONS, [region.share for region in USER_REGIONS])[0]
        visit = Visit(service, region, arrival, self._calendar.now_s)
        extra_s = self._effects.network_s.get(region.name, 0.0) / 2
        visit.up_s = extra_s + region.round_trip_s / 2 * draw.lognormvariate(0.0, 0.25)
        visit.down_s = extra_s + region.round_trip_s / 2 * draw.lognormvariate(0.0, 0.25)
        visit.reports = draw.random() < self._settings.client_share
        visit.trace_id = (draw.getrandbits(128) ^ self._run).to_bytes(16, "big")
        visit.span_id = draw.getrandbits(64).to_bytes(8, "big")
        return visit

    def _reach(self, visit: Visit) -> None:
        """The request is at the door: refuse it, or give it to the least loaded replica."""
        if visit.ended:
            return
        service = visit.service
        prefill, whole = service.pool("prefill"), service.pool("both")
        pool = whole or prefill
        if pool is None:
            raise ValueError(f"service {service.name!r} has no pool that takes prompts")
        if visit.prompt_tokens + visit.output_tokens > service.max_model_tokens:
            self._least_loaded(pool).refuse(visit.prompt_tokens)
            self._end(visit, "rejected")
        elif whole is not None:
            self._ask(visit, whole, visit.output_tokens, self._first, self._last)
        else:
            self._ask(visit, pool, 1, _nothing, self._prefilled)

    def _prefilled(self, visit: Visit) -> None:
        """The prefill engine is done: the router passes the request on."""
        self._calendar.at(self._calendar.now_s + ROUTER_S, self._continue, visit)

    def _continue(self, visit: Visit) -> None:
        pool = visit.service.pool("decode")
        if pool is None:
            raise ValueError(f"service {visit.service.name!r} has no pool that decodes")
        if not visit.ended:
            self._ask(visit, pool, visit.output_tokens, self._first, self._last)

    def _ask(
        self,
        visit: Visit,
        pool: Pool,
        output_tokens: int,
        on_first: Callable[[Visit], None],
        on_end: Callable[[Visit], None],
    ) -> None:
        """Give the request to the pool's least loaded replica."""
        remote = pool.role == "decode"
        shared = 0 if remote else visit.service.shared_prefix_tokens
        visit.replica = self._least_loaded(pool)
        visit.call = Call(
            visit.prompt_tokens,
            output_tokens,
            cached_tokens=shared if visit.prompt_tokens > shared else 0,
            remote=remote,
            trace_id=visit.trace_id,
            parent_id=visit.span_id,
            on_first=lambda: on_first(visit),
            on_end=lambda: on_end(visit),
        )
        visit.replica.receive(visit.call)

    def _least_loaded(self, pool: Pool) -> SimulatedReplica:
        """The one with the fewest tokens to go; of equals the next in turn."""
        self._turns += 1
        count = len(pool.replicas)
        order = (pool.replicas[(self._turns + index) % count].name for index in range(count))
        candidates = [self.replicas[name] for name in order]
        return min(candidates, key=lambda replica: replica.outstanding_tokens)

    def _first(self, visit: Visit) -> None:
        visit.first_s = self._calendar.now_s + visit.down_s

    def _last(self, visit: Visit) -> None:
        self._calendar.at(self._calendar.now_s + visit.down_s, self._end, visit, "ok")

    def _lose_patience(self, visit: Visit) -> None:
        if visit.first_s is None:
            self._hang_up(visit)

    def _hang_up(self, visit: Visit) -> None:
        if visit.ended:
            return
        if visit.replica is not None and visit.call is not None:
            visit.replica.hang_up(visit.call)
        self._end(visit, "cancelled")

    def _end(self, visit: Visit, outcome: str) -> None:
        """The user has all that they will get; some clients say what they saw."""
        if visit.ended:
            return
        visit.ended = True
        if not visit.reports:
            return
        now_s = self._calendar.now_s
        seen = visit.first_s is not None and visit.first_s <= now_s
        whole = outcome == "ok"
        self._spans_add(
            ClientSpan(
                client=Client(
                    service=visit.service.name,
                    model=visit.service.model,
                    use_case=visit.service.pools[0].replicas[0].use_case,
                    region=visit.region.name,
                ),
                trace_id=visit.trace_id,
                span_id=visit.span_id,
                start_at_ns=self._at_ns(visit.sent_s),
                end_at_ns=self._at_ns(now_s),
                outcome=outcome,
                ttft_s=visit.first_s - visit.sent_s if seen and visit.first_s else None,
                prompt_tokens=visit.prompt_tokens if whole else None,
                output_tokens=visit.output_tokens if whole else None,
            )
        )

    def _at_ns(self, at_s: float) -> int:
        return self._started_at_ns + round(at_s * SECOND_NS)


def _invented(settings: FleetSettings) -> dict[str, Iterator[Arrival]]:
    models = load_models()
    return {
        service.name: iter(Traffic(models[service.traffic], settings.seed)) for service in SERVICES
    }


def _nothing(visit: Visit) -> None:
    """A prefill engine's token is not the user's first."""
    del visit
