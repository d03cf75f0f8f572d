"""Which model to ask for when nobody said it: the only one that the endpoint serves."""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from domain.errors import ConfigError
from exporters.probe.failure import plain

__all__ = ["only_model"]

_TIMEOUT_S = 10.0
_MOST_BYTES = 1024 * 1024
_PATHS = ("/chat/completions", "/completions")


def only_model(url: str, headers: Mapping[str, str], *, ca_file: Path | None = None) -> str:
    """The one name in `/v1/models`; raises ConfigError where there is none or several."""
    address = _models_address(url)
    try:
        context = ssl.create_default_context(cafile=ca_file)
        with httpx.Client(
            timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False, verify=context
        ) as client:
            names = _names(client, address, headers)
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise _unknown(
            address, f"does not say which models there are: it answers {status}"
        ) from error
    except json.JSONDecodeError as error:
        raise _unknown(address, "does not say which models there are: no JSON") from error
    except httpx.ConnectError as error:
        raise ConfigError(
            f"no connection: {plain(str(error))}",
            where=address,
            remedy="Is the server running there? Check the address after --target.",
        ) from error
    except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        told = plain(str(error)) or type(error).__name__
        raise _unknown(address, f"does not say which models there are: {told}") from error
    if len(names) != 1:
        several = plain(", ".join(names[:5])) or "none"
        raise _unknown(address, f"serves {len(names)} models: {several}")
    return names[0]


def _names(client: httpx.Client, address: str, headers: Mapping[str, str]) -> list[str]:
    with client.stream("GET", address, headers=dict(headers)) as answer:
        answer.raise_for_status()
        body = bytearray()
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _MOST_BYTES:
                raise ValueError("a list without end")
    return [str(each["id"])[:256] for each in json.loads(body)["data"]]


def _models_address(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for known in _PATHS:
        path = path.removesuffix(known)
    return parts._replace(path=f"{path or '/v1'}/models", query="", fragment="").geturl()


def _unknown(address: str, problem: str) -> ConfigError:
    return ConfigError(problem, where=address, remedy="Say which one with --model NAME.")
