"""A measurement as one HTML file: nothing is loaded, everything from outside is escaped."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from importlib.resources import files

from exporters.ladder.chart import svg
from exporters.ladder.charts import charts_of
from exporters.ladder.figure_text import dollars, duration, number, share
from exporters.ladder.figures import StepFigures
from exporters.ladder.measurement import Climb, Measurement, money
from exporters.ladder.rank import Spread
from exporters.ladder.words import caveats, findings

__all__ = ["page"]

_SHOWN = (("ttft", "p50"), ("ttft", "p95"), ("ttft", "p99"), ("itl", "p50"), ("itl", "p99"))
_THEN = (("tpot", "p50"), ("e2e", "p50"), ("e2e", "p99"))


def page(measurement: Measurement) -> str:
    """The whole report."""
    title = f"Load test of {measurement.model}"
    sheet = files("exporters.ladder").joinpath("report.css").read_text("utf-8")
    said = findings(measurement)
    sections = [
        _section(measurement, climb, said[climb.shape.name], index)
        for index, climb in enumerate(measurement.climbs)
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{sheet}</style></head>\n<body>"
        f"{_head(measurement, title)}{_to_mind(measurement)}"
        f"<main>{''.join(sections)}</main>{_method(measurement)}</body></html>\n"
    )


def _head(measurement: Measurement, title: str) -> str:
    began = datetime.fromtimestamp(measurement.began_at_ns / 1e9, UTC)
    tokens_in = number(measurement.prompt_tokens, digits=9)
    tokens_out = number(measurement.output_tokens, digits=9)
    parts = [
        escape(measurement.address),
        f'<time datetime="{began.isoformat()}">{began:%Y-%m-%d %H:%M} UTC</time>',
        f"{number(measurement.lasted_s / 60)} min",
        f"{number(measurement.requests, digits=6)} requests",
        f"{tokens_in} tokens in, {tokens_out} out",
    ]
    parts += [f"{dollars(measurement.spent)} spent"] if measurement.spent is not None else []
    return (
        f'<header><p class="brand">Stagewatch</p><h1>{escape(title)}</h1>'
        f'<p class="quiet">{" · ".join(parts)}</p></header>'
    )


def _to_mind(measurement: Measurement) -> str:
    said = caveats(measurement)
    if not said:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in said)
    return f'<aside class="notice"><h3>Before you believe it</h3><ul>{items}</ul></aside>'


def _section(measurement: Measurement, climb: Climb, said: tuple[str, ...], index: int) -> str:
    shape = climb.shape
    size = f"{shape.prompt_tokens} tokens in, {shape.output_tokens} out"
    lead = f'<p class="lead">{escape(said[0])}</p>' if said else ""
    more = "".join(f"<li>{escape(each)}</li>" for each in said[1:])
    charts = "".join(
        f"<figure><h3>{escape(chart.title)}</h3>{svg(chart, name=f'c{index}-{place}')}</figure>"
        for place, chart in enumerate(charts_of(climb))
    )
    return (
        f"<section><h2>{escape(shape.name)} <small>{size}</small></h2>{lead}"
        f'<ul class="findings">{more}</ul>{_tiles(measurement, climb)}'
        f'<div class="charts">{charts}</div>{_table(measurement, climb)}</section>'
    )


def _tiles(measurement: Measurement, climb: Climb) -> str:
    working = climb.working
    if working is None:
        return ""
    at = f"at {working.step.concurrency} at a time"
    tiles = [
        ("Output tokens per second", number(working.figure("tokens_hz").median), at),
        ("Requests per second", number(working.figure("requests_hz").median), at),
        ("TTFT P99", duration(working.latency("ttft", "p99").median), at),
        ("ITL P99", duration(working.latency("itl", "p99").median), at),
    ]
    if climb.goal is not None:
        good = share(working.good or 0, working.requests)
        tiles.insert(1, ("Good requests", good, f"keep {climb.goal.text}"))
    if measurement.plan.price.is_known:
        cost = money(working, measurement.plan.price)
        tiles.append(("Per 10\u202f000 output tokens", dollars(cost.per_10_000_output_tokens), at))
        if climb.goal is not None:
            tiles.append(("Per 1\u202f000 good requests", dollars(cost.per_1_000_good), at))
    body = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in tiles
    )
    return f'<dl class="tiles">{body}</dl>'


def _table(measurement: Measurement, climb: Climb) -> str:
    runs = max((len(step.runs) for step in climb.steps), default=0)
    head = ["load", "n", "failed", "tokens/s", "requests/s"]
    head += ["good", "good/s"] if climb.goal is not None else []
    head += ["$ per 10k out"] if measurement.plan.price.is_known else []
    head += [_heading(metric, quantile) for metric, quantile in (*_SHOWN, *_THEN)]
    working = climb.working
    rows = "".join(_row(measurement, step, is_working=step is working) for step in climb.steps)
    caption = (
        f"Median of {runs} runs, lowest to highest run beneath; P99 with its rank. Open-loop TTFT "
        "and E2E count from when a request was due."
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Figures of every step">'
        f"<table><caption>{caption}</caption><thead><tr>{_cells('th', head)}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _heading(metric: str, quantile: str) -> str:
    return f"{metric.upper()} {quantile.upper()}"


def _row(measurement: Measurement, step: StepFigures, *, is_working: bool) -> str:
    since = "_intended" if step.step.is_open else ""
    load = step.step.name.removeprefix(f"{step.step.shape.name} ")
    body = [f"<td>{step.requests}</td><td>{step.failures.total()}</td>"]
    rates = [step.figure("tokens_hz"), step.figure("requests_hz")]
    body += [f"<td>{number(rate.median)}{_ends(rate, number)}</td>" for rate in rates]
    if measurement.goal is not None:
        good = step.figure("goodput_hz")
        body.append(f"<td>{share(step.good or 0, step.requests)}</td>")
        body.append(f"<td>{number(good.median)}{_ends(good, number)}</td>")
    if measurement.plan.price.is_known:
        cost = money(step, measurement.plan.price).per_10_000_output_tokens
        body.append(f"<td>{dollars(cost)}</td>")
    for metric, quantile in (*_SHOWN, *_THEN):
        named = f"{metric}{since}" if metric in ("ttft", "e2e") else metric
        body.append(_spread_cell(step.latency(named, quantile), _rank(step, named, quantile)))
    note = "" if step.is_believed else " <small>client too slow</small>"
    kind = ' class="knee"' if is_working else ""
    return f'<tr{kind}><th scope="row">{escape(load)}{note}</th>{"".join(body)}</tr>'


def _spread_cell(found: Spread, rank: str) -> str:
    if found.runs and found.median is None:
        return "<td>failed<small>never came</small></td>"
    return f"<td>{duration(found.median)}{_ends(found, duration)}{rank}</td>"


def _ends(found: Spread, say: Callable[[float | None], str]) -> str:
    if found.runs < 2:
        return ""
    return f"<small>{say(found.low)} … {say(found.high)}</small>"


def _rank(step: StepFigures, metric: str, quantile: str) -> str:
    """A P99 says which of how many it is."""
    if quantile != "p99" or metric == "itl":
        return ""
    found = step.runs[0].latencies[metric][quantile]
    if found is None:
        return ""
    return f"<small>{'max' if found.is_maximum else found.rank} of {found.n}</small>"


def _cells(kind: str, texts: Iterable[str]) -> str:
    return "".join(f'<{kind} scope="col">{escape(text)}</{kind}>' for text in texts)


def _method(measurement: Measurement) -> str:
    said = "".join(f"<p>{escape(each)}</p>" for each in _how(measurement))
    return f'<section class="method quiet"><h2>How this was measured</h2>{said}</section>'


def _how(measurement: Measurement) -> Iterator[str]:
    plan = measurement.plan
    yield (
        f"{plan.rounds} rounds over all steps, at least {plan.requests} judged requests in each "
        f"run, {number(plan.guards.run_s)} s at most. A figure is the median over the rounds; a "
        "quantile is the value of rank ⌈q·n⌉, never interpolated, never averaged. Failed requests "
        "are in n and rank last."
    )
    yield (
        "Requests before every worker has had its first answer warm the server up and are not "
        "judged; load goes on until the last judged request has ended. Rates are taken from that "
        "window alone. The first answer of each worker has another length, so that they do not "
        "walk in step."
    )
    yield (
        "TTFT and E2E run from sending to the first and the last token; ITL is every gap between "
        "two pieces of an answer, pooled; TPOT is per request. A closed loop waits for the server, "
        "as users do not: what a rate of arrivals feels like is in the open loop, whose latencies "
        "count from when a request was due."
    )
    prefix = "begin alike" if measurement.shared_prefix else "each begin with another number"
    yield (
        f"Prompts are drawn words (seed {measurement.seed}) and {prefix}. Above the knee: the "
        "first step with 95 % of the best tokens/s; where the server queues, its slots are rate x "
        "duration less the wait, by Little's law."
    )
