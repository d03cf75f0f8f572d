"""Faults to rehearse: each moves one stage of one place, and nothing else first."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.errors import ConfigError
from domain.request import Stage

__all__ = ["HEALTHY", "INCIDENTS", "Effects", "Incident", "incident"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What is different: factors on traffic and step times, seconds on the way to the user."""

    traffic: Mapping[str, float] = field(default_factory=dict)  # by service
    slowdown: Mapping[str, float] = field(default_factory=dict)  # by replica
    network_s: Mapping[str, float] = field(default_factory=dict)  # by the user's region
    halted: frozenset[str] = frozenset()  # replicas whose engine process hangs


HEALTHY = Effects()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault, the stage that is to blame, where, and what a person would say of it."""

    name: str
    stage: Stage
    place: str
    sentence: str
    effects: Effects


_ALL = (
    Incident(
        name="queue",
        stage=Stage.QUEUE,
        place="assistant-prefill",
        sentence="Twelve times as many users come to the assistant; its prefill pool falls behind.",
        effects=Effects(traffic={"assistant": 12.0}),
    ),
    Incident(
        name="slow-decode",
        stage=Stage.DECODE,
        place="assistant-decode",
        sentence="The assistant's decode pool takes four times as long per step.",
        effects=Effects(slowdown={f"assistant-decode-{index}": 4.0 for index in range(3)}),
    ),
    Incident(
        name="replica-throttled",
        stage=Stage.DECODE,
        place="code-1",
        sentence="One GPU of the code service runs at a fifth of its clock: code-1 is slow.",
        effects=Effects(slowdown={"code-1": 5.0}),
    ),
    Incident(
        name="network",
        stage=Stage.NETWORK,
        place="us-east-1",
        sentence="Users in us-east-1 are 0.8 s further away; the servers are as fast as before.",
        effects=Effects(network_s={"us-east-1": 0.8}),
    ),
    Incident(
        name="stall",
        stage=Stage.DECODE,
        place="assistant-decode-1",
        sentence="The engine process of assistant-decode-1 hangs; its page still answers.",
        effects=Effects(halted=frozenset({"assistant-decode-1"})),
    ),
)

INCIDENTS = {one.name: one for one in _ALL}


def incident(name: str) -> Incident | None:
    """The incident of this name; `none` is none."""
    if name == "none":
        return None
    if name not in INCIDENTS:
        raise ConfigError(
            f"there is no incident {name!r}",
            where="--incident",
            remedy=f"Use none, {', '.join(sorted(INCIDENTS))}.",
        )
    return INCIDENTS[name]
