"""Least squares with coefficients that are never negative, robust in relative error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bias_over", "non_negative", "robust"]

Floats = NDArray[np.float64]

_ROUNDS = 8
_HUBER = 1.5
_BIN_MIN = 8


def robust(columns: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Coefficients and relative residuals; Huber's weights, so that stalls do not bend the curve.

    why relative: long prompts would decide everything, and short ones are most of the traffic.
    """
    scale = np.maximum(values, 1e-6)
    weights = 1.0 / scale**2
    found = np.zeros(columns.shape[1])
    rest = np.zeros(len(values))
    for _ in range(_ROUNDS):
        found = non_negative(columns, values, weights)
        rest = (values - columns @ found) / scale
        spread = 1.4826 * float(np.median(np.abs(rest - np.median(rest)))) + 1e-6
        weights = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(rest), 1e-12)) / scale**2
    return found, rest


def non_negative(columns: Floats, values: Floats, weights: Floats) -> Floats:
    """Weighted least squares with no coefficient below zero (Lawson and Hanson, on few columns)."""
    size = np.maximum(np.abs(columns).max(0), 1e-12) if len(columns) else np.ones(columns.shape[1])
    scaled = columns / size
    gram = scaled.T @ (scaled * weights[:, None])
    aim = scaled.T @ (values * weights)
    scale = float(np.trace(gram)) or 1.0
    found = np.zeros(len(aim))
    used = np.zeros(len(aim), bool)
    for _ in range(3 * len(aim)):
        slope = np.where(used, -np.inf, aim - gram @ found)
        if used.all() or slope.max() <= 1e-10 * max(float(np.abs(aim).max()), 1e-300):
            break
        used[int(slope.argmax())] = True
        found = _feasible(gram + 1e-13 * scale * np.eye(len(aim)), aim, found, used)
    return found / size


def _feasible(gram: Floats, aim: Floats, found: Floats, used: NDArray[np.bool_]) -> Floats:
    """The best with these columns; whichever would go below zero is left out again."""
    while used.any():
        wish = np.zeros(len(aim))
        wish[used] = np.linalg.solve(gram[np.ix_(used, used)], aim[used])
        below = used & (wish <= 0)
        if not below.any():
            return wish
        step = float(np.min(found[below] / np.maximum(found[below] - wish[below], 1e-300)))
        found = found + step * (wish - found)
        used &= found > 1e-14 * max(float(found.max()), 1e-300)
    return np.zeros(len(aim))


def bias_over(axis: Floats, relative: Floats, bins: int = 14) -> float:
    """How far a curve is off on the average of quantile bins: misfit, which noise hardly moves."""
    edges = np.unique(np.quantile(axis, [*np.linspace(0, 0.98, bins), 0.995, 1.0]))
    if len(edges) < 2:
        return float(abs(np.median(relative)))
    place = np.clip(np.searchsorted(edges, axis, side="right") - 1, 0, len(edges) - 2)
    middles = [
        float(np.median(relative[place == each]))
        for each in range(len(edges) - 1)
        if int((place == each).sum()) >= _BIN_MIN
    ]
    return float(np.sqrt(np.mean(np.square(middles)))) if middles else 0.0
