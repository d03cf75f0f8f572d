"""Whose a series of Prometheus is: its target and its sender, and what we call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from collector.remote_write_series import NAME
from collector.remote_write_settings import RemoteWriteSettings
from domain.labels import MAX_LABEL_LENGTH, Labels, labels_of

__all__ = ["Naming", "Whose", "common"]

_ROLES: Final = ("prefill", "decode", "both")


@dataclass(frozen=True, slots=True)
class Whose:
    """The labels by which a target is known, and those by which a Prometheus is."""

    target: Labels
    sender: Labels


class Naming:
    """The settings, applied."""

    def __init__(self, settings: RemoteWriteSettings) -> None:
        self._settings = settings
        self._target = {settings.service_label, settings.replica_label, *settings.apart}
        self._sender = frozenset(settings.senders)
        self._known = frozenset((*settings.services, *settings.roles))

    def whose(self, labels: Labels) -> Whose | None:
        """None for what no target told: sums over several, rules, alerts."""
        told = dict(labels)
        if not (told.get(self._settings.service_label) and told.get(self._settings.replica_label)):
            return None
        return Whose(
            target=tuple(pair for pair in labels if pair[0] in self._target),
            sender=tuple(pair for pair in labels if pair[0] in self._sender),
        )

    def is_named(self, target: Labels) -> bool:
        """Whether the configuration speaks of this target, so that it is an engine if silent too."""
        return not self._known.isdisjoint(value for _, value in target)

    def strange(self, labels: Iterable[str]) -> frozenset[str]:
        """Of the names of a target's own labels: those that are no engine's. More are added."""
        return frozenset((*labels, *self._target, *self._sender)) - {NAME}

    def ours(self, told: Mapping[str, str]) -> Labels:
        """What we call a target, by all labels that Prometheus gives it."""
        settings = self._settings
        job, replica = told[settings.service_label], told[settings.replica_label]
        apart = [value for name in settings.apart if (value := told.get(name))]
        ours = {
            name: value[:MAX_LABEL_LENGTH]
            for theirs, name in settings.labels.items()
            if (value := told.get(theirs)) and (name != "role" or value in _ROLES)
        }
        service = settings.services.get(job, job)
        by_name = (settings.roles.get(name) for name in (replica, job, service))
        role = next((role for role in by_name if role), "")
        return labels_of(
            {
                **ours,
                "service": service[:MAX_LABEL_LENGTH],
                "replica": "/".join((*apart, replica))[:MAX_LABEL_LENGTH],
                **({"role": role} if role else {}),
            }
        )


def common(series: Iterable[Labels]) -> dict[str, str]:
    """The labels that all of these series carry, with one value."""
    first, *others = series
    shared = set(first)
    for labels in others:
        shared.intersection_update(labels)
    return dict(shared)
