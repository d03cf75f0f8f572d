"""Readings as text for a person: what `--once` prints."""

from collections.abc import Iterable, Iterator

from domain.labels import Labels, value_of
from exporters.engine.reading import Latency, Reading

__all__ = ["describe", "why_down"]

_QUANTILES = (0.5, 0.95, 0.99)
_SAID_OTHERWISE = ("up", "not_reported")


def describe(readings: Iterable[Reading]) -> str:
    """A paragraph per target."""
    return "\n\n".join("\n".join(_lines(reading)) for reading in readings) + "\n"


def _lines(reading: Reading) -> Iterator[str]:
    name = " ".join(f"{key}={value}" for key, value in reading.target if key != "source")
    known = reading.engine if reading.up else why_down(reading)
    yield f"{name}: {'up' if reading.up else 'not observed'}{f' ({known})' if known else ''}"
    for level in reading.levels:
        if level.metric not in _SAID_OTHERWISE:
            yield f"  {level.metric:20s} {_own(level.labels, reading)}{level.value:g}"
    for increment in reading.increments:
        if reading.up:
            yield f"  {increment.metric:20s} {_own(increment.labels, reading)}{increment.by:g}"
    for latency in reading.latencies:
        yield f"  {latency.metric:20s} {_own(latency.labels, reading)}{_latency(latency)}"
    if reading.missing:
        yield f"  not reported: {', '.join(reading.missing)}"
    for note in reading.notes:
        yield f"  ! {note}"


def why_down(reading: Reading) -> str:
    """The reason in one word, as the documentation lists it; empty when it is up."""
    told = (value_of(each.labels, "reason") for each in reading.levels if each.metric == "up")
    return next((reason for reason in told if reason), "")


def _own(labels: Labels, reading: Reading) -> str:
    """The labels that the target does not have anyway."""
    own = [f"{key}={value}" for key, value in labels if not value_of(reading.target, key)]
    return f"[{' '.join(own)}] " if own else ""


def _latency(latency: Latency) -> str:
    """Count, mean, and the interval of each quantile; nothing is interpolated."""
    of = f" (one per {latency.sample})" if latency.sample else ""
    mean_s = latency.distribution.mean_s
    mean = "unknown" if mean_s is None else _seconds(mean_s)
    parts = [f"n={latency.distribution.n}{of}", f"mean {mean}"]
    for q in _QUANTILES:
        found = latency.distribution.quantile(q)
        if found is not None:
            parts.append(f"P{q * 100:g} {_seconds(found.low_s)} … {_seconds(found.high_s)}")
    return ", ".join(parts)


def _seconds(value_s: float) -> str:
    return f"{value_s * 1000:.4g} ms" if value_s < 1 else f"{value_s:.4g} s"
