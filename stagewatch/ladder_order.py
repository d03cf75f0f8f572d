"""The words of a command line as an order for a ladder, and as the way to the collector."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from domain.errors import ConfigError
from exporters.delivery.settings import DeliverySettings
from exporters.ladder.climb import Order
from exporters.ladder.cost import Price
from exporters.ladder.model_name import only_model
from exporters.ladder.objective import parse_goal
from exporters.ladder.plan import SHAPES, Guards, Plan, Shape
from exporters.probe.settings import ProbeTarget

__all__ = ["delivery_of", "order_of"]

_SHARES = (0.5, 0.8, 0.95)
_Number = TypeVar("_Number", int, float)


def order_of(arguments: argparse.Namespace) -> Order:
    return Order(
        plan=_plan(arguments),
        goal=parse_goal(arguments.objective, target=arguments.target_share),
        rates_hz=_needed(arguments),
        target=_target(arguments),
        seed=arguments.seed,
        shared_prefix=arguments.shared_prefix,
        ignore_eos=not arguments.stop_at_eos,
    )


def _plan(arguments: argparse.Namespace) -> Plan:
    rates = _numbers("--rate", arguments.rate, float)
    closed = arguments.loop != "open" or not rates
    return Plan(
        shapes=_shapes(arguments),
        concurrencies=_numbers("--concurrency", arguments.concurrency, int) if closed else (),
        rates_hz=rates if arguments.loop != "closed" else (),
        rate_shares=_SHARES if arguments.loop != "closed" and not rates else (),
        rounds=arguments.runs,
        requests=arguments.requests,
        guards=Guards(
            max_requests=arguments.max_requests,
            max_spend=arguments.max_spend,
            max_error_share=arguments.max_errors / 100,
            run_s=arguments.run_seconds,
            max_in_flight=arguments.max_in_flight,
        ),
        price=Price(
            per_hour=arguments.price_per_hour,
            per_million_input=arguments.price_input,
            per_million_output=arguments.price_output,
        ),
    )


def _shapes(arguments: argparse.Namespace) -> tuple[Shape, ...]:
    shapes = {}
    for part in arguments.prompts.split(","):
        name, _, tokens = part.strip().partition("=")
        known = tokens or str(SHAPES.get(name, ""))
        if not name or not known.isdecimal() or len(known) > 9:
            raise ConfigError(
                f"{part[:40]!r} is no prompt",
                where="--prompts",
                remedy="Write short, long or NAME=TOKENS, such as code=512.",
            )
        shapes[name] = Shape(
            name=name, prompt_tokens=int(known), output_tokens=arguments.output_tokens
        )
    return tuple(shapes.values())


def _needed(arguments: argparse.Namespace) -> tuple[float, ...]:
    rates = _numbers("--for-rate", arguments.for_rate, float)
    if not all(0 < rate < 1e9 for rate in rates):
        raise ConfigError(
            "a rate is above 0 requests/s", where="--for-rate", remedy="Write 0.5 or 10,40."
        )
    return rates


def _numbers(option: str, text: str | None, kind: Callable[[str], _Number]) -> tuple[_Number, ...]:
    try:
        return tuple(kind(part) for part in text.split(",")) if text else ()
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no list of numbers", where=option, remedy="Write 1,4,8."
        ) from error


def _target(arguments: argparse.Namespace) -> ProbeTarget:
    key = _secret("--api-key-env", arguments.api_key_env)
    told = {
        "service": arguments.service or urlsplit(arguments.target).hostname or "endpoint",
        "url": arguments.target,
        "kind": arguments.kind,
        "region": arguments.region,
        "api_key": key,
        "ca_file": arguments.ca_file,
        "timeout_s": arguments.timeout,
        "usage": "final",  # why not counts along the way: they make every event longer
    }
    target = _checked({**told, "model": arguments.model or "unknown"})
    if arguments.model is not None:
        return target
    return _checked({**told, "model": _served(arguments, target, key)})


def _checked(told: Mapping[str, Any]) -> ProbeTarget:
    try:
        return ProbeTarget.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "target"
        raise ConfigError(
            str(first["msg"]),
            where=f"probe ladder: {place}",
            remedy="Mend it on the command line.",
        ) from error


def _served(arguments: argparse.Namespace, target: ProbeTarget, key: str | None) -> str:
    if target.aws:
        raise ConfigError(
            "an AWS endpoint does not say what it serves",
            where="--model",
            remedy="Give --model NAME.",
        )
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return only_model(target.address, headers, ca_file=arguments.ca_file)


def _secret(option: str, variable: str | None) -> str | None:
    """Never on the command line: everybody on a machine can read that."""
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(
            f"{variable} is not set", where=option, remedy="Export it, or name another variable."
        )
    return value


def delivery_of(arguments: argparse.Namespace) -> DeliverySettings:
    token = _secret("--token-env", arguments.token_env)
    try:
        return DeliverySettings.model_validate(
            {"endpoint": arguments.endpoint, "token": token, "spool_dir": None}
        )
    except ValidationError as error:
        raise ConfigError(
            str(error.errors()[0]["msg"]), where="--endpoint", remedy="Write http://host:4318."
        ) from error
