"""The charts of one shape: latencies, throughput and goodput over load, and TTFT as a distribution."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from exporters.ladder.chart import Chart, Line, Mark
from exporters.ladder.figure_text import duration, number
from exporters.ladder.figures import StepFigures
from exporters.ladder.knee import Beyond
from exporters.ladder.measurement import Climb
from exporters.ladder.rank import Spread

__all__ = ["charts_of"]

_CURVE_POINTS = 160
_MOST_CURVES = 6
_CLOSED, _OPEN = "requests at a time", "requests a second, Poisson arrivals"


def charts_of(climb: Climb) -> tuple[Chart, ...]:
    """In the order in which a reader wants them; only those that have something to show."""
    return tuple(_charts(climb))


def _charts(climb: Climb) -> Iterator[Chart]:
    closed, opened = climb.closed, climb.open
    if len(closed) > 1:
        yield _quantiles(climb, closed, "ttft", "Time to first token")
        yield _rates(climb, closed, "tokens_hz", "Output tokens per second", "tokens/s")
        yield _quantiles(climb, closed, "itl", "Gap between tokens (ITL)")
        yield _quantiles(climb, closed, "e2e", "Whole answer (E2E)")
        yield _requests(climb, closed)
    if closed:
        yield _distribution(climb, closed)
    if len(opened) > 1:
        yield _quantiles(climb, opened, "ttft_intended", "First token, since it was due")
        yield _quantiles(climb, opened, "e2e_intended", "Whole answer, since it was due")
        yield _requests(climb, opened)
    if opened and not closed:
        yield _distribution(climb, opened)


def _x(step: StepFigures) -> float:
    return step.step.rate_hz or float(step.step.concurrency or 0)


def _line(
    name: str,
    steps: Sequence[StepFigures],
    found: Callable[[StepFigures], Spread],
    *,
    dash: int,
) -> Line:
    spreads = [found(step) for step in steps]
    return Line(
        name=name,
        points=tuple((_x(step), each.median) for step, each in zip(steps, spreads, strict=True)),
        low=tuple(each.low for each in spreads),
        high=tuple(each.high for each in spreads),
        dash=dash,
    )


def _quantiles(climb: Climb, steps: Sequence[StepFigures], metric: str, title: str) -> Chart:
    lines = tuple(
        _line(q.upper(), steps, lambda step, q=q: step.latency(metric, q), dash=dash)  # type: ignore[misc]  # mypy cannot infer a lambda's default
        for dash, q in enumerate(("p99", "p95", "p50"))
    )
    named = metric.removesuffix("_intended")
    level = tuple(
        Mark(value=float(each.at_most_s), label=f"objective: {each.text}")
        for each in (climb.goal.conditions if climb.goal is not None else ())
        if each.metric == named or (named == "itl" and each.metric == "itl_p99")
    )
    return _chart(climb, steps, title, lines, say=duration, level=level)


def _rates(
    climb: Climb,
    steps: Sequence[StepFigures],
    rate: str,
    title: str,
    name: str,
) -> Chart:
    lines = (_line(name, steps, lambda step: step.figure(rate), dash=0),)
    return _chart(climb, steps, title, lines, say=number)


def _requests(climb: Climb, steps: Sequence[StepFigures]) -> Chart:
    lines = [_line("answered", steps, lambda step: step.figure("requests_hz"), dash=1)]
    title = "Answered requests per second"
    if climb.goal is not None:
        title = "Goodput: good requests per second"
        lines.insert(0, _line("good", steps, lambda step: step.figure("goodput_hz"), dash=0))
    arriving = ", by arrivals" if steps[0].step.is_open else ""
    return _chart(climb, steps, title + arriving, tuple(lines), say=number)


def _chart(
    climb: Climb,
    steps: Sequence[StepFigures],
    title: str,
    lines: tuple[Line, ...],
    *,
    say: Callable[[float], str],
    level: tuple[Mark, ...] = (),
) -> Chart:
    is_open = steps[0].step.is_open
    ours = climb.disbelieved_from
    return Chart(
        title=title,
        description=_described(lines, say, "requests/s" if is_open else "at a time"),
        x_label=_OPEN if is_open else _CLOSED,
        lines=lines,
        say=say,
        upright=() if is_open else _knee_mark(climb),
        level=level,
        doubtful_from=None if ours is None or is_open else float(ours.concurrency or 0),
        doubtful=tuple(_x(step) for step in steps if not step.is_believed),
    )


def _knee_mark(climb: Climb) -> tuple[Mark, ...]:
    knee = climb.knee
    begins = knee.slots or knee.at
    if knee.beyond in (Beyond.UNKNOWN, Beyond.RISES) or begins is None:
        return ()
    return (Mark(value=begins, label=f"knee {knee.from_concurrency}"),)


def _described(lines: Sequence[Line], say: Callable[[float], str], at: str) -> str:
    """First and last point of each line in words."""
    parts = []
    for line in lines:
        known = [(x, value) for x, value in line.points if value is not None]
        if known:
            (x0, first), (x1, last) = known[0], known[-1]
            parts.append(f"{line.name}: {say(first)} at {number(x0)}, {say(last)} at {number(x1)}")
    return f"{'; '.join(parts)} ({at})." if parts else "No figures."


def _distribution(climb: Climb, steps: Sequence[StepFigures]) -> Chart:
    """Share of requests that have their first token by then; failed ones never have."""
    chosen = _spaced(steps, _MOST_CURVES)
    lines = []
    for place, step in enumerate(chosen):
        points = _curve(step)
        if points:
            above = (place + 1) / (len(chosen) + 1) * 100
            carries = next((i for i, (_, y) in enumerate(points) if y >= above), len(points) - 1)
            lines.append(
                Line(
                    name=step.step.name.removeprefix(f"{climb.shape.name} "),
                    points=points,
                    dots=False,
                    opacity=0.4 + 0.6 * (place + 1) / len(chosen),
                    label_at=carries,
                )
            )
    return Chart(
        title="First tokens by then, share of all requests",
        description="; ".join(
            f"{step.step.name}: half by {duration(step.latency('ttft', 'p50').median)}, "
            f"99 % by {duration(step.latency('ttft', 'p99').median)}"
            for step in chosen
        ),
        x_label="time to first token",
        lines=tuple(lines),
        say=lambda value: f"{number(value)} %",
        x_is_listed=False,
        x_say=duration,
        y_max=100.0,
    )


def _curve(step: StepFigures) -> tuple[tuple[float, float], ...]:
    """All runs of a step together, thinned to what can be seen."""
    ttfts_s = np.sort(np.concatenate([run.ttfts_s for run in step.runs]))
    if not len(ttfts_s) or not step.requests:
        return ()
    kept = np.unique(np.linspace(0, len(ttfts_s) - 1, _CURVE_POINTS).astype(int))
    shares = 100 * (kept + 1) / step.requests
    return tuple(zip(ttfts_s[kept].tolist(), shares.tolist(), strict=True))


def _spaced(steps: Sequence[StepFigures], most: int) -> list[StepFigures]:
    if len(steps) <= most:
        return list(steps)
    places = np.linspace(0, len(steps) - 1, most).round().astype(int)
    return [steps[place] for place in places]
