"""An OpenAI-compatible streaming server in a process of its own, with whatever a test plants in it.

It notes when it really did each thing, on the clock that every process of this machine shares
(CLOCK_MONOTONIC): a test compares with that, not with what a sleep was asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import httpx

__all__ = ["Plan", "StreamingServer"]

_READY = re.compile(r"port (\d+)")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How it answers. A request's header `x-plan` (JSON) changes it for that request alone."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str = ""  # PEM files: with them it speaks TLS
    key: str = ""
    headers_s: float = 0.0  # before the status line
    first_token_s: float = 0.02  # from the request to the first token
    gap_s: float = 0.005
    tokens: int = 20
    tokens_per_chunk: int = 1
    tokens_per_write: int = 0  # so many are held back and sent at once; 0: each as it comes
    word: str = "word"
    usage: str = "as_asked"  # or: none, refused (400 where more than include_usage), never (400)
    role_chunk: bool = True
    reasoning: int = 0  # so many chunks of thought come first
    hidden_thought: int = 0  # tokens that are billed as thought and not sent
    tool: bool = False  # the tokens are pieces of a tool call
    empty_deltas: bool = False  # chunks that show nothing
    finish_reason: str = "length"
    done: bool = True
    comments: int = 0  # keep-alive lines before the first token, evenly
    line_end: str = "\n"
    piece_bytes: int = 0  # events leave in pieces of so many bytes
    huge_line_bytes: int = 0
    garbage: str = ""  # in place of all events
    error_after: int | None = None  # an error event after so many tokens
    cut_after_s: float | None = None  # from the request
    cut: str = "close"  # or: reset, 504
    hang_after: int | None = None  # after so many tokens nothing more comes
    status: int = 200
    body: str = ""
    extra_headers: dict[str, str] = field(default_factory=dict)
    refuse: int = 0  # the first so many get `status`
    unary: bool = False
    cold_s: float = 0.0  # more before the first token, when idle for `cold_idle_s` or new
    cold_idle_s: float = 1e9
    concurrency: int = 0  # so many at once; the others wait; 0: all at once
    queue: int = 1_000_000  # beyond so many waiting: 429
    keep_alive: bool = True


class StreamingServer:
    """The server until the block ends: `url` is where, `truth()` what it did."""

    def __init__(self, **plan: Any) -> None:
        self.plan = Plan(**plan)

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, json.dumps(asdict(self.plan))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = _READY.search(self._process.stdout.readline())
        assert found is not None, "the streaming server did not start"
        self.port = int(found[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def netloc(self) -> str:
        return f"{self.plan.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.plan.certificate else 'http'}://{self.netloc}"

    def truth(self) -> list[dict[str, Any]]:
        """What was done for each request: instants in ns, `tokens` one per chunk."""
        answer = httpx.get(self.url + "/truth", verify=False, timeout=10)  # noqa: S501 - our own
        return answer.json()


class _CutError(Exception):
    """The connection ends here."""


class _Server:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.truths: list[dict[str, Any]] = []
        self.slots = asyncio.Semaphore(plan.concurrency or 1_000_000)
        self.waiting = self.refused = 0
        self.last_at_s: float | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (_CutError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (each.partition(":") for each in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if line.startswith("GET /truth"):
            _plain(writer, 200, json.dumps(self.truths))
            return True
        plan = replace(self.plan, **json.loads(headers.get("x-plan", "{}")))
        asked = json.loads(body or b"{}")
        truth = {"line": line, "headers": headers, "asked": asked, "tokens": [], "ended": None}
        truth["arrived"] = time.perf_counter_ns()
        self.truths.append(truth)
        if line.endswith("HTTP/1.0"):  # no chunks for it: the end of the connection is the end
            plan = replace(plan, keep_alive=False)
        answer = _Answering(self, plan, writer, truth, asked)
        try:
            await self._within_time(plan, answer)
        finally:
            truth["ended"] = time.perf_counter_ns()
            self.last_at_s = time.monotonic()
        return plan.keep_alive

    async def _within_time(self, plan: Plan, answer: _Answering) -> None:
        if plan.cut_after_s is None:
            await answer.run()
            return
        try:
            async with asyncio.timeout(plan.cut_after_s):
                await answer.run()
        except TimeoutError:
            answer.cut()

    def cold_s(self, plan: Plan) -> float:
        idle_s = None if self.last_at_s is None else time.monotonic() - self.last_at_s
        return plan.cold_s if idle_s is None or idle_s >= plan.cold_idle_s else 0.0


class _Answering:
    """One request's answer."""

    def __init__(self, server, plan, writer, truth, asked) -> None:
        self.server, self.plan, self.writer = server, plan, writer
        self.truth, self.asked = truth, asked
        self.chat = "messages" in asked
        self.chunked = truth["line"].endswith("HTTP/1.1")
        self.said = 0
        self.held = bytearray()
        self.started = False

    async def run(self) -> None:
        server, plan = self.server, self.plan
        if refusal := self._refusal():
            _plain(self.writer, *refusal, self.plan.extra_headers)
            return
        if server.slots.locked() and server.waiting >= plan.queue:
            _plain(self.writer, 429, '{"error": {"message": "too busy"}}', plan.extra_headers)
            return
        server.waiting += 1
        try:
            await server.slots.acquire()
        finally:
            server.waiting -= 1
        try:
            await self._stream()
        finally:
            server.slots.release()

    def _refusal(self) -> tuple[int, str] | None:
        options, plan = self.asked.get("stream_options") or {}, self.plan
        if plan.usage == "never" and options:
            return 400, '{"error": {"message": "unknown field stream_options"}}'
        if plan.usage == "refused" and "continuous_usage_stats" in options:
            return 400, '{"error": {"message": "Unknown: stream_options.continuous_usage_stats"}}'
        if plan.status != 200 and (not plan.refuse or self.server.refused < plan.refuse):
            self.server.refused += 1
            return plan.status, plan.body
        return None

    async def _stream(self) -> None:
        plan, begun_s = self.plan, time.monotonic()
        cold_s = self.server.cold_s(plan)
        await asyncio.sleep(plan.headers_s)
        if plan.unary:
            await asyncio.sleep(plan.first_token_s + plan.gap_s * plan.tokens)
            _plain(self.writer, 200, json.dumps(self._whole()))
            return
        self._begin()
        if plan.garbage:
            self._send(plan.garbage.encode())
        elif plan.huge_line_bytes:
            self._send(b"data: " + b"x" * plan.huge_line_bytes)
        else:
            await self._events(begun_s + plan.first_token_s + cold_s)
        self._flush()
        if self.chunked:
            self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def _events(self, first_at_s: float) -> None:
        plan = self.plan
        if plan.role_chunk and self.chat:
            self._event(self._chunk({"role": "assistant", "content": ""}))
        wait_s = first_at_s - time.monotonic()
        for _ in range(plan.comments):
            self._send(b": keep-alive" + plan.line_end.encode() * 2)
            await asyncio.sleep(wait_s / (plan.comments + 1))
        await asyncio.sleep(max(first_at_s - time.monotonic(), 0))
        at_s = time.monotonic()
        most = min(plan.tokens, self.asked.get("max_tokens", plan.tokens))
        while self.said < most:
            if plan.hang_after is not None and self.said >= plan.hang_after:
                await asyncio.sleep(3600)
            if plan.error_after is not None and self.said >= plan.error_after:
                self._event({"error": {"message": "engine died", "code": 500}})
                self._end()
                return
            await asyncio.sleep(max(at_s - time.monotonic(), 0))
            self.said += min(plan.tokens_per_chunk, most - self.said)
            self._event(self._chunk(self._delta()), token=True)
            at_s += plan.gap_s * plan.tokens_per_chunk
        if plan.finish_reason:
            self._event(self._chunk({}, finish=plan.finish_reason))
        if (self.asked.get("stream_options") or {}).get("include_usage") and plan.usage != "none":
            self._event({"object": "chat.completion.chunk", "choices": [], "usage": self._usage()})
        self._end()

    def _end(self) -> None:
        if self.plan.done:
            self._send(f"data: [DONE]{self.plan.line_end * 2}".encode())

    def _delta(self) -> dict[str, Any]:
        if self.plan.empty_deltas:
            return {}
        if self.said <= self.plan.reasoning:
            return {"reasoning_content": "hm "}
        if self.plan.tool:
            return {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}
        return {"content": " ".join([self.plan.word] * self.plan.tokens_per_chunk) + " "}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        if self.chat:
            choice["delta"] = delta
        else:
            choice["text"] = delta.get("content", "")
        told = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}
        options = self.asked.get("stream_options") or {}
        if options.get("continuous_usage_stats") and self.plan.usage == "as_asked":
            told["usage"] = self._usage()
        return told

    def _usage(self) -> dict[str, Any]:
        prompt = self.asked.get("prompt") or self.asked["messages"][0]["content"]
        usage = {
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": self.said + self.plan.hidden_thought,
        }
        if self.plan.hidden_thought:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.plan.hidden_thought}
        return usage

    def _whole(self) -> dict[str, Any]:
        self.said = self.plan.tokens
        choice = {"index": 0, "finish_reason": "stop", "message": {"content": "word"}}
        return {"object": "chat.completion", "choices": [choice], "usage": self._usage()}

    def _event(self, told: dict[str, Any], *, token: bool = False) -> None:
        data = f"data: {json.dumps(told, ensure_ascii=False)}{self.plan.line_end * 2}".encode()
        if not token or not self.plan.tokens_per_write:
            self._flush() if not token else None
            self._send(data)
            if token:
                self.truth["tokens"].append(time.perf_counter_ns())
            return
        self.held += data
        self.truth["tokens"].append(time.perf_counter_ns())
        if len(self.truth["tokens"]) % self.plan.tokens_per_write == 0:
            self._flush()

    def _flush(self) -> None:
        if self.held:
            self._send(bytes(self.held))
            self.held.clear()

    def _begin(self) -> None:
        more = "".join(f"{name}: {value}\r\n" for name, value in self.plan.extra_headers.items())
        self.started = True
        self.writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n{more}"
            f"{'transfer-encoding: chunked' if self.chunked else 'connection: close'}"
            "\r\n\r\n".encode()
        )
        self.truth["headers_at"] = time.perf_counter_ns()

    def _send(self, data: bytes) -> None:
        size = self.plan.piece_bytes or len(data)
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            framed = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
            self.writer.write(framed if self.chunked else piece)

    def cut(self) -> None:
        if self.plan.cut == "504" and not self.started:
            _plain(self.writer, 504, '{"message": "Endpoint request timed out"}')
        elif self.plan.cut == "reset":
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
            raise _CutError
        else:
            raise _CutError


def _plain(writer, status: int, body: str, more: dict[str, str] | None = None) -> None:
    data = body.encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in (more or {}).items())
    writer.write(
        f"HTTP/1.1 {status} So\r\ncontent-type: application/json\r\n{lines}"
        f"content-length: {len(data)}\r\n\r\n".encode()
        + data
    )


async def _main(plan: Plan) -> None:
    context = None
    if plan.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(plan.certificate, plan.key)
    server = await asyncio.start_server(
        _Server(plan).serve, plan.host, plan.port, ssl=context, backlog=1024
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
    sys.stdout.write(f"port {server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Plan(**json.loads(sys.argv[1]))))
