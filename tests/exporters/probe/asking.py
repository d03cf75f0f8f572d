"""Short ways for tests to ask a server once, or often."""

import asyncio
import json

from pydantic import SecretStr

from exporters.probe.client import exchange
from exporters.probe.connection import Connection, libc
from exporters.probe.prompt import Prompt
from exporters.probe.settings import ProbeTarget

__all__ = ["ask", "ask_again", "asked_with", "target_of"]

PROMPT = Prompt.of_words(20, max_tokens=200)


def target_of(url, **changes):
    return ProbeTarget(**{"service": "chat", "model": "m", "url": url, **changes})


def ask(target, *, timeout_s=10.0, resolve=libc, prompt=PROMPT):
    """One exchange on a connection of its own."""
    return ask_again(1, target, timeout_s=timeout_s, resolve=resolve, prompt=prompt)[0]


def ask_again(times, target, *, timeout_s=10.0, resolve=libc, prompt=PROMPT, kept=False):
    """Several exchanges one after the other, on one connection or on one each."""

    async def every():
        done, connection = [], Connection(target, resolve=resolve)
        for _ in range(times):
            done.append(await exchange(target, prompt, connection=connection, timeout_s=timeout_s))
            if not kept:
                await connection.close()
        await connection.close()
        return done

    return asyncio.run(every())


def asked_with(server, timeout_s=5.0, **plan):
    """One exchange with a server that answers this request by another plan."""
    headers = {"x-plan": SecretStr(json.dumps(plan))}
    return ask(target_of(server.url, headers=headers), timeout_s=timeout_s)
