"""Connections cost the servers nothing for long: the head of a request comes in time, or the connection is closed."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pdserve import http_server
from pdserve.http_json import awaited
from pdserve.http_server import Lifecycle, _serve

HEAD_SECONDS = 0.4


async def slow(_: Request) -> Response:
    await asyncio.sleep(3 * HEAD_SECONDS)
    return PlainTextResponse("done")


@asynccontextmanager
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(http_server, "_HEAD_SECONDS", HEAD_SECONDS)
    bound = socket.create_server(("127.0.0.1", 0))
    lifecycle = Lifecycle(lambda: None, lambda: False, 0.0)
    serving = asyncio.create_task(_serve(Starlette(routes=[Route("/", slow)]), bound, lifecycle))
    try:
        yield bound.getsockname()[1]
    finally:
        lifecycle.fail()
        await serving


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: x\r\n"])
def test_a_connection_on_which_no_whole_head_comes_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    async def scenario() -> None:
        async with served(monkeypatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert await reader.read() == b""
            writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_an_answer_may_take_longer_than_its_head_and_the_next_head_is_bounded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with served(monkeypatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200") and await reader.readexactly(4) == b"done"
            writer.write(b"GET / HT")
            assert await reader.read() == b""
            writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_work_that_fails_after_its_caller_has_left_leaves_no_traceback_in_the_log() -> None:
    async def scenario() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        work: Future[None] = Future()
        waiting = asyncio.ensure_future(awaited(work))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        work.set_exception(RuntimeError("the router took the request back"))
        del work, waiting
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        assert complaints == []

    asyncio.run(scenario())
