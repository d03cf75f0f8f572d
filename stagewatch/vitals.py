"""How this process is, gathered from its parts for the status page."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from sqlalchemy import Engine

from alerts.delivery_log import Doing, receivers
from collector.own_metrics import OwnMetrics
from dashboard.vitals import Limits, ReceiverState, Vitals
from stagewatch.config import Config
from stagewatch.evaluation import Evaluation

__all__ = ["ProcessWitness"]


class ProcessWitness:
    """Asks each part when it is asked; `evaluation` is None where another process judges."""

    def __init__(
        self,
        config: Config,
        own: OwnMetrics,
        state: Engine,
        evaluation: Evaluation | None,
        *,
        collects: bool,
        told: tuple[Callable[[], str | None], Callable[[], str | None]],
    ) -> None:
        """`told`: what is wrong with the parts of the process, and what to look at."""
        self._own, self._state = own, state
        self._settings, self._data_dir = config.collecting, config.store.data_dir
        self._collects, self._evaluation = collects, evaluation
        self._problem, self._warning = told

    def vitals(self) -> Vitals:
        disk = shutil.disk_usage(self._data_dir)
        evaluation = self._evaluation
        return Vitals(
            collects=self._collects,
            evaluates=evaluation is not None,
            leads=None if evaluation is None else evaluation.leads,
            heartbeat=None if evaluation is None else evaluation.heartbeat(),
            problem=self._problem(),
            warning=self._warning(),
            counted=[
                (sample.name, sample.labels, sample.value)
                for family in self._own.registry.collect()
                for sample in family.samples
            ],
            limits=Limits(
                series=self._settings.max_series,
                lateness_s=self._settings.lateness_s,
                requests_kept_s=self._settings.requests_retention_s,
                tiers_kept_s=self._settings.retention.by_tier(),
            ),
            receivers=[_receiver(each) for each in receivers(self._state)],
            disk_bytes=disk.total,
            disk_free_bytes=disk.free,
        )


def _receiver(doing: Doing) -> ReceiverState:
    failing = doing.last is not None and doing.last.outcome != "delivered"
    return ReceiverState(
        name=doing.receiver,
        failing=failing,
        waiting=doing.waiting,
        waiting_since_s=doing.waiting_since_s,
        delivered_at_s=doing.delivered_at_s,
        detail=doing.last.detail if doing.last is not None and failing else "",
    )
