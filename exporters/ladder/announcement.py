"""What is about to be done to somebody's server, said before it is done."""

import ipaddress
import math
from urllib.parse import urlsplit

from exporters.ladder.climb import Order
from exporters.ladder.figure_text import number
from exporters.ladder.rank import QUANTILES
from exporters.probe.failure import plain

__all__ = ["announcement", "is_loopback"]


def announcement(order: Order) -> str:
    """Steps, requests, tokens and money, and where it would stop by itself."""
    plan = order.plan
    prompts, outputs = plan.most_tokens()
    steps = [f"c={each}" for each in sorted(set(plan.concurrencies))]
    steps += [f"{number(rate)}/s" for rate in sorted(set(plan.rates_hz))]
    steps += [f"{number(100 * share)} % of the best rate" for share in plan.rate_shares]
    shapes = ", ".join(
        f"{each.name} ({each.prompt_tokens} tokens in, {each.output_tokens} out)"
        for each in plan.shapes
    )
    rank = f"max of {plan.requests}" if plan.p99_is_maximum else _rank(plan.requests)
    requests = number(plan.most_requests(), digits=9)
    tokens = f"{number(prompts, digits=12)} tokens in, {number(outputs, digits=12)} out"
    lines = [
        f"target    {order.target.address}, model {plain(order.target.model)}",
        f"prompts   {shapes}",
        f"steps     {', '.join(steps)}",
        f"runs      {plan.rounds} of each, {plan.requests} requests judged or more; P99 = {rank}",
        f"at most   {requests} requests, {tokens}",
        f"stops     {_stops(order)}",
    ]
    spend = plan.most_spend()
    if spend is not None:
        lines.insert(5, f"costs     ${spend:,.2f} at most, at the prices given")
    return "\n".join(lines) + "\n"


def _rank(requests: int) -> str:
    return f"rank {math.ceil(QUANTILES['p99'] * requests)} of {requests}"


def _stops(order: Order) -> str:
    guards = order.plan.guards
    said = [f"a run after {number(guards.run_s)} s"]
    said += [f"a step when more than {number(100 * guards.max_error_share)} % fail"]
    said += [f"all at {guards.max_requests} requests"] if guards.max_requests is not None else []
    said += [f"all at ${guards.max_spend:,.2f}"] if guards.max_spend is not None else []
    return "; ".join(said)


def is_loopback(url: str) -> bool:
    """True only of what surely is this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
