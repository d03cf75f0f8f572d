"""A period from what the collector keeps: each request's stages as instants since its arrival.

A request tells one wait. In a disaggregated fleet that is the wait for prefill and for decode
together; who filled the prompt is known where both halves sent their spans.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from collector.query import Reader, Window
from domain.errors import InputError
from domain.labels import Labels, matches, value_of
from domain.leg import Outcome
from domain.request import Request
from review.period import OUTCOMES, Kind, Period, Worker, period_of

__all__ = ["period_from", "read_period"]

_NAN: Final = float("nan")
_ROLES: Final = ("prefill", "decode", "both")
_WORKERS_MAX: Final = 10_000


def read_period(
    reader: Reader, window: Window, *, where: Labels = (), gpus: Mapping[str, str] | None = None
) -> Period:
    """All requests of a window. `gpus`: GPU type by replica, where somebody knows it."""
    told = [each for fresh in reader.freshness(window) for each in fresh.replicas]
    replicas = [each.labels for each in told if matches(each.labels, where)]
    return period_from(reader.export(window, where=where), window, gpus=gpus, replicas=replicas)


def period_from(
    requests: Iterable[Request],
    window: Window,
    *,
    gpus: Mapping[str, str] | None = None,
    replicas: Iterable[Labels] = (),
) -> Period:
    """The requests that arrived in the window, wrong ones (HTTP 4xx) left out and counted.

    `replicas`: labels of prefill replicas, which requests do not name.
    """
    rows = _Rows(window, dict(gpus or {}))
    for labels in replicas:
        if value_of(labels, "role") == "prefill":
            rows.know(labels)
    for request in requests:
        rows.add(request)
    return rows.period()


class _Rows:
    """Columns that grow; a million requests are 60 MB."""

    def __init__(self, window: Window, gpus: Mapping[str, str]) -> None:
        self._window, self._gpus = window, gpus
        self._seconds = {
            name: array("d")
            for name in ("arrival_s", "start_s", "prefilled_s", "first_s", "last_s")
        }
        self._counts = {
            name: array("l") for name in ("prompt_tokens", "cached_tokens", "output_tokens")
        }
        self._workers: dict[Worker, int] = {}
        self._places = {name: array("h") for name in ("prefiller", "decoder")}
        self._outcome = bytearray()
        self._left_out: Counter[str] = Counter()

    def add(self, request: Request) -> None:
        began_s = request.start_at_ns / 1e9 - self._window.since_s
        if request.outcome is Outcome.REJECTED:
            self._left_out["the request itself was wrong"] += 1
            return
        if not 0 <= began_s < self._window.until_s - self._window.since_s:
            self._left_out["arrived outside the period"] += 1
            return
        if not request.complete:
            self._left_out["a half is missing"] += 1
        for name, value in zip(self._seconds, (began_s, *_instants(request)), strict=True):
            self._seconds[name].append(value)
        for name, column in self._counts.items():
            told = getattr(request, name)
            column.append(-1 if told is None else told)
        for name, place in zip(self._places, self._served_by(request), strict=True):
            self._places[name].append(place)
        self._outcome.append(OUTCOMES.index(request.outcome))

    def know(self, labels: Labels) -> None:
        """A prefill replica that is there."""
        name = value_of(labels, "replica")
        worker = Worker(name=name, kind=self._kind(name, labels, "prefill"))
        self._workers.setdefault(worker, len(self._workers))

    def _kind(self, name: str, labels: Labels, role: str) -> Kind:
        return Kind(
            role=role,
            gpu=self._gpus.get(name, value_of(labels, "gpu_name")),
            engine_version=value_of(labels, "engine"),
            pool=value_of(labels, "pool"),
        )

    def _served_by(self, request: Request) -> tuple[int, int]:
        """A replica of its own role: one that does both is its own prefill worker."""
        name = value_of(request.labels, "replica")
        if not name:
            return -1, -1
        role = value_of(request.labels, "role")
        halves = request.kv_transfer_s is not None or role in ("prefill", "decode")
        role = role if role in _ROLES else ("decode" if halves else "both")
        kind = self._kind(name, request.labels, role)
        place = self._workers.setdefault(Worker(name=name, kind=kind), len(self._workers))
        if place >= _WORKERS_MAX:
            raise InputError(
                f"more than {_WORKERS_MAX} replicas served the period",
                where="review",
                remedy="Ask for one service, or check that `replica` names replicas.",
            )
        if role == "prefill":  # it never came to decode
            return place, -1
        return (place if role == "both" else self._filler(request)), place

    def _filler(self, request: Request) -> int:
        """The replica that filled the prompt; -1 where its span did not come."""
        labels = request.prefilled_by
        name = value_of(labels, "replica")
        if not name:
            return -1
        worker = Worker(name=name, kind=self._kind(name, labels, "prefill"))
        return self._workers.setdefault(worker, len(self._workers))

    def period(self) -> Period:
        columns = {
            **{name: np.array(column) for name, column in self._seconds.items()},
            **{name: np.array(column) for name, column in self._counts.items()},
            **{name: np.array(column) for name, column in self._places.items()},
            "outcome": np.frombuffer(bytes(self._outcome), np.uint8),
        }
        return period_of(
            columns,
            tuple(self._workers),
            since_s=float(self._window.since_s),
            length_s=float(self._window.until_s - self._window.since_s),
            left_out=self._left_out,
        )


def _instants(request: Request) -> tuple[float, float, float, float]:
    """Prefill's start and end, first and last token, since arrival; NaN where it is not told."""
    start_s = _NAN if request.queue_s is None else request.queue_s
    filled_s = start_s + (_NAN if request.prefill_s is None else request.prefill_s)
    first_s = _NAN if request.ttft_s is None else request.ttft_s
    last_s = first_s + (_NAN if request.decode_s is None else request.decode_s)
    return start_s, filled_s, first_s, last_s
