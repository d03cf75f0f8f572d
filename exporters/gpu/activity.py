"""Activity of a board or MIG instance from the driver's performance counters (GPM; Hopper and newer)."""

from __future__ import annotations

from typing import Any, Final

from exporters.gpu.nvml import Nvml, Unavailable

__all__ = ["Activity"]

_METRICS: Final = {
    2: "gpu_sm_active",
    3: "gpu_sm_occupancy",
    5: "gpu_tensor_active",
    10: "gpu_dram_bandwidth",
}


class Activity:
    """Two samples that take turns; each reading is what happened between the last two."""

    def __init__(self, nvml: Nvml, instance: int | None = None) -> None:
        """`instance`: the id of a GPU instance, None for the whole board."""
        self._nvml = nvml
        self._instance = instance
        self._samples: list[Any] = []
        self._taken = 0
        self._question: Any = None

    def read(self, board: Any) -> dict[str, float]:
        """Ratios since the last reading; empty the first time. Raises Unavailable."""
        if not self._samples:
            self._begin(board)
        older, newer = self._samples if self._taken % 2 else reversed(self._samples)
        if self._instance is None:
            self._nvml.ask("nvmlGpmSampleGet", board, newer)
        else:
            self._nvml.ask("nvmlGpmMigSampleGet", board, self._instance, newer)
        self._taken += 1
        return self._between(older, newer) if self._taken > 1 else {}

    def again(self) -> None:
        """Give the samples back; the next reading starts anew."""
        for sample in self._samples:
            self._nvml.ask("nvmlGpmSampleFree", sample)
        self._samples, self._taken = [], 0

    def _begin(self, board: Any) -> None:
        if not self._nvml.ask("nvmlGpmQueryDeviceSupport", board).isSupportedDevice:
            raise Unavailable("not_supported")
        self._samples = [self._nvml.ask("nvmlGpmSampleAlloc") for _ in range(2)]
        raw = self._nvml.raw
        question = raw.c_nvmlGpmMetricsGet_t()
        question.version = raw.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(_METRICS)
        for place, number in enumerate(_METRICS):
            question.metrics[place].metricId = number
        self._question = question

    def _between(self, older: Any, newer: Any) -> dict[str, float]:
        question = self._question
        question.sample1, question.sample2 = older, newer
        self._nvml.ask("nvmlGpmMetricsGet", question)
        found = {}
        for place, key in enumerate(_METRICS.values()):
            metric = question.metrics[place]
            if not metric.nvmlReturn:
                found[key] = float(metric.value) / 100
        return found
