"""OTLP over gRPC: TraceService and MetricsService, plain or gzip, on a loop and thread of their own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from collector.body import too_slow
from collector.intake import Intake
from collector.log import RefusalLog
from collector.otlp_status import Reason, Refusal, answer, retry_trailers
from collector.own_metrics import OwnMetrics
from collector.reception import Arrival, Reception
from collector.settings import CollectorSettings
from collector.signals import SIGNALS, AnySignal
from domain.errors import ConfigError

__all__ = ["GrpcServer", "serve"]

_GZIP_MAGIC = b"\x1f\x8b"  # never the start of protobuf: it would be wire type 7
_PLAIN_OR_GZIP = 0b101
_CODES = {code.value[0]: code for code in grpc.StatusCode}

_READERS_PER_THREAD = 4  # messages in the air for each one being kept

_Context = Any  # grpc.aio.ServicerContext, whose stubs know no trailers of bytes


def serve(
    intake: Intake,
    settings: CollectorSettings,
    counters: OwnMetrics,
    *,
    log: RefusalLog | None = None,
) -> "GrpcServer":
    """Listen, or raise a ConfigError that says why not. Returns once the port is open."""
    server = GrpcServer(Reception(intake, settings, counters, protocol="grpc", log=log))
    server.start()
    return server


class GrpcServer:
    """A running receiver; `port` is the one it got."""

    def __init__(self, reception: Reception) -> None:
        self.port = 0
        self._reception = reception
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="otlp-grpc-loop", daemon=True)
        self._server: grpc.aio.Server | None = None

    def start(self) -> None:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        except ConfigError:
            self._end()
            raise

    def stop(self, grace_s: float = 2.0) -> None:
        """Take nothing new, finish what is being kept, close. What takes longer is cut off."""
        asyncio.run_coroutine_threadsafe(self._close(grace_s), self._loop).result()
        self._end()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._reception.close()

    async def _open(self) -> None:
        settings = self._reception.settings
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", settings.max_body_bytes),
                # why: grpc would inflate a bomb before it looks at its size; we do it bounded
                ("grpc.per_message_decompression", 0),
                ("grpc.compression_enabled_algorithms_bitset", _PLAIN_OR_GZIP),
                ("grpc.so_reuseport", 0),  # else two collectors would share the port unnoticed
            )
        )
        readers = asyncio.Semaphore(_READERS_PER_THREAD * settings.max_concurrent)
        for signal in SIGNALS:
            server.add_generic_rpc_handlers((_service(self._reception, signal, readers),))
        self.port = _bound(server, settings.host, settings.otlp_grpc_port)
        await server.start()
        self._server = server

    async def _close(self, grace_s: float) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)


def _bound(server: grpc.aio.Server, host: str, port: int) -> int:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError:
        bound = 0
    if not bound:
        raise ConfigError(
            f"cannot listen on {address}: the port is taken or the address is not ours",
            where="collector.otlp_grpc_port",
            remedy="Stop what listens there, or set another port (0 takes a free one).",
        )
    return bound


def _service(
    reception: Reception, signal: AnySignal, readers: asyncio.Semaphore
) -> "grpc.GenericRpcHandler[bytes, Message]":
    # why a stream of one: the handler then runs before the message is read, so that a stranger's
    # message is never read, and a slow one holds no thread
    method = grpc.stream_unary_rpc_method_handler(
        _method(reception, signal, readers), response_serializer=_serialized
    )
    return grpc.method_handlers_generic_handler(signal.service, {"Export": method})


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _method(
    reception: Reception, signal: AnySignal, readers: asyncio.Semaphore
) -> Callable[[object, _Context], Awaitable[Message]]:
    where = f"/{signal.service}/Export"

    async def export(_: object, context: _Context) -> Message:
        arrival = Arrival(
            signal=signal.name,
            where=where,
            peer=context.peer(),
            traceparent=_told(context, "traceparent") or "",
        )
        try:
            with reception.export(arrival):
                reception.admit(_told(context, "authorization"), where)
                with reception.lease(where) as lease:
                    body = await _read(context, readers, reception.settings, where)
                    lease.grow(len(body))
                    gzip = body.startswith(_GZIP_MAGIC)
                    return await reception.keep(signal, body, arrival, gzip=gzip)
        except Refusal as refusal:
            code = _CODES[answer(refusal.reason)[1]]
            await context.abort(code, str(refusal), retry_trailers(refusal))
            raise  # abort has raised; this is for the reader

    return export


async def _read(
    context: _Context, readers: asyncio.Semaphore, settings: CollectorSettings, where: str
) -> bytes:
    try:
        # why the semaphore: flow control holds back at the sender what we do not ask for
        async with asyncio.timeout(settings.body_timeout_s), readers:
            body = await context.read()
    except TimeoutError as slow:
        raise too_slow(where, settings.body_timeout_s) from slow
    if body is grpc.aio.EOF:  # type: ignore[attr-defined] # the stubs lag
        # grpc itself refuses what is too large, and tells us only that nothing came
        raise Refusal(
            f"no whole message came: it is larger than {settings.max_body_bytes} bytes, "
            "or the sender broke off",
            reason=Reason.TOO_LARGE,
            where=where,
            remedy="Send smaller batches, or raise collector.max_body_bytes.",
        )
    return bytes(body)


def _told(context: _Context, name: str) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == name:
            return value if isinstance(value, str) else None
    return None
