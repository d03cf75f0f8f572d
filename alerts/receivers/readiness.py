"""Whether people can be told: the receivers that promises name are there, texts work, extras too."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Protocol

from alerts.receivers.proof import prove
from domain.errors import ConfigError

__all__ = ["Promise", "Receiver", "Step", "ready"]

_NEEDS = {"sns": ("boto3", "aws"), "apprise": ("apprise", "apprise")}


class Receiver(Protocol):
    """What is looked at of a receiver."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...


class Step(Protocol):
    """One step of an escalation."""

    @property
    def receivers(self) -> tuple[str, ...]: ...


class Promise(Protocol):
    """What is looked at of a promise."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def receivers(self) -> tuple[str, ...]: ...

    @property
    def escalation(self) -> Sequence[Step]: ...


def ready(receivers: Sequence[Receiver], promises: Iterable[Promise]) -> None:
    """One clear error for the first that is not."""
    for receiver in receivers:
        _installed(receiver)
    there = [each.name for each in receivers]
    for promise in promises:
        later = (name for step in promise.escalation for name in step.receivers)
        for name in (*promise.receivers, *later):
            if name not in there:
                raise _unknown(name, there, promise.name)
        if promise.summary:
            prove(promise.summary, where=f"slo {promise.name!r}, summary")


def _installed(receiver: Receiver) -> None:
    module, extra = _NEEDS.get(receiver.type, ("", ""))
    if module and find_spec(module) is None:
        raise ConfigError(
            f"{module} is not installed",
            where=f"receiver {receiver.name!r} of type {receiver.type}",
            remedy=f"Run: pip install 'stagewatch[{extra}]'.",
        )


def _unknown(name: str, there: Sequence[str], promise: str) -> ConfigError:
    meant = difflib.get_close_matches(name, there, n=1)
    hint = f"Did you mean {meant[0]!r}?" if meant else f"There are: {', '.join(there)}."
    return ConfigError(
        f"there is no receiver {name!r}",
        where=f"slo {promise!r}",
        remedy=hint if there else "Add it under receivers.",
    )
