"""A measurement as JSON: one stable object, described in `docs/load-test-an-endpoint.md`."""

from datetime import UTC, datetime
from typing import Any

from exporters.ladder.figures import LATENCIES, RunFigures, StepFigures
from exporters.ladder.knee import Knee
from exporters.ladder.measurement import Climb, Measurement, money, required
from exporters.ladder.rank import QUANTILES, Ranked, Spread
from exporters.ladder.words import caveats, findings

__all__ = ["SCHEMA", "document"]

SCHEMA = "stagewatch.ladder/1"

_RATES = ("requests_hz", "tokens_hz", "prompt_tokens_hz", "goodput_hz")
_MEANS = ("mean_ttft_s", "mean_e2e_s", "prompt_tokens", "output_tokens", "in_flight")


def document(measurement: Measurement) -> dict[str, Any]:
    """Plain lists, mappings, numbers and texts. null is not measured, never zero."""
    return {
        "schema": SCHEMA,
        "target": measurement.address,
        "model": measurement.model,
        "began_at": datetime.fromtimestamp(measurement.began_at_ns / 1e9, UTC).isoformat(),
        "lasted_s": measurement.lasted_s,
        "ended": measurement.ended or None,
        "asked": _asked(measurement),
        "sent": {
            "requests": measurement.requests,
            "prompt_tokens": measurement.prompt_tokens,
            "output_tokens": measurement.output_tokens,
            "spent_usd": measurement.spent,
        },
        "caveats": list(caveats(measurement)),
        "shapes": [_shape(measurement, climb) for climb in measurement.climbs],
    }


def _asked(measurement: Measurement) -> dict[str, Any]:
    plan, goal, price = measurement.plan, measurement.goal, measurement.plan.price
    return {
        "concurrency": list(plan.concurrencies),
        "rate_hz": list(plan.rates_hz),
        "rate_shares": list(plan.rate_shares),
        "runs": plan.rounds,
        "requests": plan.requests,
        "run_s": plan.guards.run_s,
        "seed": measurement.seed,
        "shared_prefix": measurement.shared_prefix,
        "ignore_eos": measurement.ignores_eos,
        "tokens_per_word": measurement.tokens_per_word,
        "objectives": [
            {"metric": each.metric, "at_most_s": float(each.at_most_s)}
            for each in (goal.conditions if goal is not None else ())
        ],
        "target_share": float(goal.target) if goal is not None else None,
        "for_rate_hz": list(measurement.rates_hz),
        "price": {
            "usd_per_hour": price.per_hour,
            "usd_per_million_input": price.per_million_input,
            "usd_per_million_output": price.per_million_output,
        },
    }


def _shape(measurement: Measurement, climb: Climb) -> dict[str, Any]:
    best, kept, ours = climb.best_goodput, climb.kept_to, climb.disbelieved_from
    return {
        "name": climb.shape.name,
        "prompt_tokens": climb.shape.prompt_tokens,
        "output_tokens": climb.shape.output_tokens,
        "findings": list(findings(measurement)[climb.shape.name]),
        "knee": _knee(climb.knee) if climb.closed else None,
        "objectives_kept_to": kept.step.concurrency if kept else None,
        "best_goodput_at": best.step.concurrency if best else None,
        "client_is_bottleneck_from": ours.concurrency if ours else None,
        "required": [_required(climb, rate_hz) for rate_hz in measurement.rates_hz],
        "steps": [_step(measurement, step) for step in climb.steps],
    }


def _knee(knee: Knee) -> dict[str, Any]:
    return {
        "beyond": knee.beyond.value,
        "concurrency": knee.at,
        "slots": knee.slots,
        "slots_at_least": knee.slots_at_least,
        "kneedle": knee.second_opinion,
        "ttft_growth_s": knee.ttft_growth_s,
        "itl_growth_s": knee.itl_growth_s,
    }


def _required(climb: Climb, rate_hz: float) -> dict[str, Any]:
    needed = required(climb, rate_hz)
    return {
        "rate_hz": rate_hz,
        "duration_s": needed.duration_s if needed else None,
        "in_flight": needed.in_flight if needed else None,
        "endpoints": needed.endpoints if needed else None,
        "endpoint_hz": needed.endpoint_hz if needed else None,
    }


def _step(measurement: Measurement, step: StepFigures) -> dict[str, Any]:
    cost = money(step, measurement.plan.price)
    return {
        "loop": "open" if step.step.is_open else "closed",
        "concurrency": step.step.concurrency,
        "rate_hz": step.step.rate_hz,
        "requests": step.requests,
        "good": step.good,
        "failures": dict(sorted(step.failures.items())),
        "believed": step.is_believed,
        "stopped": step.stopped or None,
        "latencies": {
            metric: {q: _spread(step.latency(metric, q)) for q in QUANTILES} for metric in LATENCIES
        },
        "rates": {name: _spread(step.figure(name)) for name in _RATES},
        "means": {name: _spread(step.figure(name)) for name in _MEANS},
        "cost": {
            "usd_per_10000_output_tokens": cost.per_10_000_output_tokens,
            "usd_per_10000_tokens": cost.per_10_000_tokens,
            "usd_per_1000_good": cost.per_1_000_good,
        },
        "runs": [_run(run) for run in step.runs],
    }


def _spread(found: Spread) -> dict[str, float | None]:
    return {"median": found.median, "low": found.low, "high": found.high}


def _run(run: RunFigures) -> dict[str, Any]:
    return {
        "run": run.number,
        "requests": run.requests,
        "good": run.good,
        "failures": dict(sorted(run.failures.items())),
        "window_s": run.window_s,
        "latencies": {
            metric: {q: _ranked(found) for q, found in values.items()}
            for metric, values in run.latencies.items()
        },
        **{name: getattr(run, name) for name in (*_RATES, *_MEANS)},
        "client": {"late_s": run.client.late_s, "cpu_ratio": run.client.cpu_ratio},
        "stopped": run.stopped or None,
    }


def _ranked(found: Ranked | None) -> dict[str, Any] | None:
    """`value_s` null with a rank: that rank is a request that failed."""
    if found is None:
        return None
    return {"value_s": found.value_s, "rank": found.rank, "n": found.n}
