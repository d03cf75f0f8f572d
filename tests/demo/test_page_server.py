"""The pages on real sockets."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from stagewatch.demo.page_server import open_pages


@asynccontextmanager
async def serving(*pages):
    server = await open_pages(
        [lambda page=page: page for page in pages], host="127.0.0.1", base_port=0
    )
    try:
        yield server.ports
    finally:
        await server.close()


async def ask(port, raw):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def test_every_page_has_a_port_of_its_own():
    async def scenario():
        async with serving("one\n", "two\n") as ports:
            request = b"GET /metrics HTTP/1.0\r\n\r\n"
            return [await ask(port, request) for port in ports]

    one, two = asyncio.run(scenario())

    assert one.endswith(b"\r\n\r\none\n")
    assert two.endswith(b"\r\n\r\ntwo\n")


def test_the_answer_names_its_format_and_length_as_vllm_s_does():
    async def scenario():
        async with serving("a 1.0\n") as ports:
            return await ask(ports[0], b"GET /metrics HTTP/1.0\r\n\r\n")

    head = asyncio.run(scenario()).partition(b"\r\n\r\n")[0].decode()

    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "content-type: text/plain; version=1.0.0; charset=utf-8" in head
    assert "content-length: 6" in head


def test_one_connection_serves_many_scrapes():
    async def scenario():
        async with serving("a 1.0\n") as ports:
            request = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"
            last = b"GET /metrics HTTP/1.1\r\nconnection: close\r\n\r\n"
            return await ask(ports[0], request + request + last)

    assert asyncio.run(scenario()).count(b"a 1.0\n") == 3


def test_a_request_may_come_in_pieces():
    async def scenario():
        async with serving("a 1.0\n") as ports:
            reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
            for piece in (b"GET /met", b"rics HTTP/1.0\r", b"\n\r\n"):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(scenario()).endswith(b"a 1.0\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /health HTTP/1.1", b"200"),
        (b"GET /metrics?x=1 HTTP/1.1", b"200"),
        (b"HEAD /metrics HTTP/1.1", b"200"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"GET /other HTTP/1.1", b"404"),
        (b"nonsense", b"400"),
    ],
)
def test_other_requests_get_the_status_they_deserve(request_line, status):
    async def scenario():
        async with serving("a 1.0\n") as ports:
            return await ask(ports[0], request_line + b"\r\nconnection: close\r\n\r\n")

    assert asyncio.run(scenario()).split(b" ")[1] == status


def test_a_head_without_end_is_cut_off():
    async def scenario():
        async with serving("a 1.0\n") as ports:
            return await ask(ports[0], b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 20_000)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 431 ")


def test_a_taken_port_is_an_error_and_leaves_none_open():
    async def scenario():
        async with serving("a\n") as ports:
            with pytest.raises(OSError, match="address"):
                await open_pages(
                    [lambda: "b\n", lambda: "c\n"], host="127.0.0.1", base_port=ports[0]
                )

    asyncio.run(scenario())
