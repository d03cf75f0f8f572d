"""The fleet that the demo simulates: services, pools, replicas, users and where they are."""

from dataclasses import dataclass

from stagewatch.demo.engine import Speed

__all__ = [
    "ASSISTANT",
    "CODE",
    "SERVICES",
    "USER_REGIONS",
    "Pool",
    "Replica",
    "Service",
    "UserRegion",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One engine and the labels it goes by."""

    name: str
    service: str
    model: str
    use_case: str
    pool: str
    role: str
    region: str
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Replicas that do the same."""

    name: str
    role: str
    speed: Speed
    replicas: tuple[Replica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What users ask: one pool that does it all, or one that reads and one that writes."""

    name: str
    model: str
    traffic: str
    max_model_tokens: int
    shared_prefix_tokens: int
    pools: tuple[Pool, ...]

    def pool(self, role: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.role == role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRegion:
    """Where users sit: their share, and the median of their way to the server and back."""

    name: str
    share: float
    round_trip_s: float


USER_REGIONS = (
    UserRegion(name="eu-west-1", share=0.40, round_trip_s=0.012),
    UserRegion(name="us-east-1", share=0.40, round_trip_s=0.080),
    UserRegion(name="ap-southeast-1", share=0.20, round_trip_s=0.160),
)

_LARGE = Speed(
    step_s=0.014,
    per_prompt_token_s=0.000060,
    per_token_and_context_s=1.2e-10,
    per_sequence_s=0.00005,
    per_kv_token_s=1.2e-8,
    kv_blocks=36_000,
)
_SMALL = Speed(
    step_s=0.007,
    per_prompt_token_s=0.000012,
    per_token_and_context_s=2e-11,
    per_sequence_s=0.00002,
    per_kv_token_s=1e-8,
    kv_blocks=30_000,
    step_tokens=4096,
)


def _pool(
    name: str,
    role: str,
    speed: Speed,
    count: int,
    *,
    service: str,
    model: str,
    use_case: str,
    region: str,
) -> Pool:
    return Pool(
        name=name,
        role=role,
        speed=speed,
        replicas=tuple(
            Replica(
                name=f"{name}-{index}",
                service=service,
                model=model,
                use_case=use_case,
                pool=name,
                role=role,
                region=region,
                zone=f"{region}{'abc'[index % 3]}",
            )
            for index in range(count)
        ),
    )


ASSISTANT = Service(
    name="assistant",
    model="llama-3.3-70b-instruct",
    traffic="azure2023_conv",
    max_model_tokens=131_072,
    shared_prefix_tokens=128,
    pools=tuple(
        _pool(
            f"assistant-{role}",
            role,
            _LARGE,
            3,
            service="assistant",
            model="llama-3.3-70b-instruct",
            use_case="chat",
            region="eu-west-1",
        )
        for role in ("prefill", "decode")
    ),
)
CODE = Service(
    name="code",
    model="qwen2.5-coder-7b",
    traffic="azure2023_code",
    max_model_tokens=32_768,
    shared_prefix_tokens=0,
    pools=(
        _pool(
            "code",
            "both",
            _SMALL,
            2,
            service="code",
            model="qwen2.5-coder-7b",
            use_case="code",
            region="us-east-1",
        ),
    ),
)
SERVICES = (ASSISTANT, CODE)
