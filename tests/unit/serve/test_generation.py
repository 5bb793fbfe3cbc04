"""One request across failures: what is tried next, what is counted, and how it ends when the router stops.

The peers are HTTP servers of the test's own on loopback; the router's side is whole.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

pytest.importorskip("starlette")

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pdserve.config import Peer
from pdserve.control_auth import ControlAuth
from pdserve.http_json import ClosingStream
from pdserve.http_server import Lifecycle, _serve
from pdserve.metrics import RouterMetrics
from pdserve.openai_api.answer import Answer
from pdserve.openai_api.shapes import CompletionShape
from pdserve.router import heartbeat
from pdserve.router.generation import Ask, Fleet, Generation, GenerationFailed
from pdserve.router.peers import Peers
from pdserve.router.pool import Pool, PoolMember
from pdserve.sampling import Sampling
from pdserve.text.answer_text import AnswerText

Reply = Callable[[str, dict[str, object], asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Node:
    """A peer on a port of its own that answers as `reply` says and notes the paths it was asked for."""

    reply: Reply
    port: int = 0
    asked: list[str] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
            body = json.loads(await reader.readexactly(length) or b"{}")
            path = head.split(" ")[1]
            self.asked.append(path)
            await self.reply(path, body, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


def answer(writer: asyncio.StreamWriter, value: object, status: int = 200) -> None:
    body = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))


def open_stream(writer: asyncio.StreamWriter, *lines: object) -> None:
    """Of a response that ends with its connection."""
    writer.write(b"HTTP/1.1 200 X\r\nconnection: close\r\n\r\n")
    writer.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


async def whole_decode(path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
    """Recomputes at once; on a pair, waits for KV that this test's prefill never sends."""
    if path == "/v1/reserve":
        answer(writer, {"ticket": {"request_id": body["request_id"], "address": "127.0.0.1:1", "prompt_tokens": 2}})
    elif path == "/v1/generate" and body["recompute"]:
        open_stream(writer, {"token_ids": [5]}, {"token_ids": [6]}, {"finish_reason": "length"})
    elif path == "/v1/generate":
        await asyncio.sleep(60)
    else:
        answer(writer, {"aborted": True})
    await writer.drain()


async def silent(path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
    """As a stopped process: the kernel takes the connection, nobody answers."""
    await asyncio.sleep(60)


async def gone(path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
    """As a process that ended: whatever is asked, the connection breaks."""


@asynccontextmanager
async def fleet_of(prefill: Node, decode: Node) -> AsyncIterator[Fleet]:
    peers = Peers(ControlAuth(None))
    await prefill.start()
    await decode.start()
    try:
        yield Fleet(
            prefill=Pool([Peer(name="p0", url=f"http://127.0.0.1:{prefill.port}")]),
            decode=Pool([Peer(name="d0", url=f"http://127.0.0.1:{decode.port}")]),
            peers=peers,
            metrics=RouterMetrics(),
            layers=1,
            eos_ids=frozenset({0}),
        )
    finally:
        await peers.close()
        await prefill.stop()
        await decode.stop()


def ask(patience_s: float) -> Ask:
    return Ask([1, 2], 2, Sampling(temperature=0.0), patience_s)


async def all_of(tokens: AsyncGenerator[int, None]) -> list[int]:
    return [token async for token in tokens]


def test_waiting_for_a_decode_that_is_gone_is_not_counted_as_attempts() -> None:
    async def scenario() -> None:
        decode = Node(whole_decode)
        async with fleet_of(Node(silent), decode) as fleet:
            await decode.stop()
            generation = Generation(ask(1.0), fleet)
            with pytest.raises(GenerationFailed) as failure:
                await all_of(generation.tokens())
            assert failure.value.code == "deadline"
            assert generation.figures.attempts == 0

    asyncio.run(asyncio.wait_for(scenario(), 20))


async def endless_decode(path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
    """One token, then nothing more."""
    if path == "/v1/generate":
        open_stream(writer, {"token_ids": [5]})
        await writer.drain()
        await asyncio.sleep(60)
    await whole_decode(path, body, writer)


def sse_app(fleet: Fleet) -> ASGIApp:
    """Streams one answer as the router's own endpoint does."""

    async def stream(_: Request) -> Response:
        shape = CompletionShape("cmpl-1", 1, "m")
        made = Answer(Generation(ask(30.0), fleet), AnswerText(lambda ids: "x" * len(ids), [1, 2], []), shape)
        return ClosingStream(made.events(), media_type="text/event-stream")

    return Starlette(routes=[Route("/", stream)])


def test_a_stream_cut_by_a_stop_of_the_router_ends_with_an_error_that_says_so() -> None:
    async def scenario() -> None:
        async with fleet_of(Node(silent), Node(endless_decode)) as fleet:
            lifecycle = Lifecycle(lambda: None, lambda: bool(fleet.live), 0.1, fleet.stop)
            bound = socket.create_server(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
            serving = asyncio.create_task(_serve(sse_app(fleet), bound, lifecycle))
            async with httpx.AsyncClient(trust_env=False, timeout=10) as client, client.stream("GET", url) as response:
                lines = response.aiter_lines()
                assert '"text":"x"' in await anext(lines)
                os.kill(os.getpid(), signal.SIGTERM)
                rest = [line async for line in lines if line]
            await serving
            (last,) = rest
            assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
            assert not fleet.live

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_request_that_waits_for_its_first_token_is_told_of_the_stop_at_once() -> None:
    async def scenario() -> None:
        async with fleet_of(Node(silent), Node(whole_decode)) as fleet:
            waiting = asyncio.create_task(all_of(Generation(ask(30.0), fleet).tokens()))
            while not fleet.live:
                await asyncio.sleep(0.01)
            fleet.stop()
            with pytest.raises(GenerationFailed) as failure:
                await asyncio.wait_for(waiting, 3)
            assert (failure.value.status, failure.value.code) == (503, "shutting_down")

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_silent_prefill_costs_one_request_a_share_of_its_deadline_and_the_next_nothing() -> None:
    async def scenario() -> None:
        prefill = Node(silent)
        async with fleet_of(prefill, Node(whole_decode)) as fleet:
            first = Generation(ask(6.0), fleet)
            assert await all_of(first.tokens()) == [5, 6]
            assert first.figures.path == "recompute"
            assert first.figures.ttft_seconds is not None and first.figures.ttft_seconds < 4.0
            second = Generation(ask(6.0), fleet)
            assert await all_of(second.tokens()) == [5, 6]
            assert second.figures.ttft_seconds is not None and second.figures.ttft_seconds < 1.0
            assert prefill.asked.count("/v1/prefill") == 1

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_prefill_that_is_slow_but_answers_is_waited_for() -> None:
    async def busy(path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        if path == "/health":
            answer(writer, {"status": "ready"})
        else:
            await asyncio.sleep(60)

    async def scenario() -> None:
        prefill = Node(busy)
        async with fleet_of(prefill, Node(whole_decode)) as fleet:
            generation = Generation(ask(3.5), fleet)
            with pytest.raises(GenerationFailed) as failure:
                await all_of(generation.tokens())
            assert failure.value.code == "deadline"
            assert generation.figures.attempts == 1 and "/health" in prefill.asked

    asyncio.run(asyncio.wait_for(scenario(), 20))


@pytest.mark.parametrize(("healthy", "tries"), [(True, 2), (False, 1)])
def test_a_prefill_that_came_back_is_tried_once_more_before_decode_recomputes(healthy: bool, tries: int) -> None:
    async def dying(path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        if path == "/health":
            answer(writer, {"status": "ready" if healthy else "loading"}, 200 if healthy else 503)

    async def scenario() -> None:
        prefill = Node(dying)
        async with fleet_of(prefill, Node(whole_decode)) as fleet:
            generation = Generation(ask(10.0), fleet)
            assert await all_of(generation.tokens()) == [5, 6]
            assert prefill.asked.count("/v1/prefill") == tries
            assert generation.figures.path == "recompute"

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_stop_at_the_very_end_of_a_deadline_breaks_nothing() -> None:
    async def scenario() -> None:
        async with fleet_of(Node(silent), Node(whole_decode)) as fleet:
            waiting = asyncio.create_task(all_of(Generation(ask(0.3), fleet).tokens()))
            while not waiting.done():
                fleet.stop()
                fleet.stop()
                await asyncio.sleep(0)
            assert isinstance(waiting.exception(), GenerationFailed)

    asyncio.run(asyncio.wait_for(scenario(), 20))


@asynccontextmanager
async def beating(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The heartbeat, ten times as fast as it is."""
    monkeypatch.setattr(heartbeat, "_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(heartbeat, "_SILENT_AFTER_SECONDS", 0.5)
    watching = asyncio.create_task(heartbeat.watch(fleet.members, fleet.peers))
    try:
        yield
    finally:
        watching.cancel()


@dataclass
class Freezable:
    """A decode that can be stopped: it keeps its connections and says nothing more."""

    first: int
    frozen: bool = False

    async def __call__(self, path: str, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        if self.frozen:
            await asyncio.sleep(60)
        if path == "/v1/generate" and body["token_ids"] == [1, 2]:
            open_stream(writer, {"token_ids": [self.first]})
            await writer.drain()
            await asyncio.sleep(60)
        await whole_decode(path, body, writer)


def test_a_stream_on_a_decode_that_freezes_goes_on_elsewhere_long_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        freezing, other = Freezable(5), Node(whole_decode)
        await other.start()
        async with fleet_of(Node(gone), Node(freezing)) as fleet, beating(fleet, monkeypatch):
            tokens = Generation(ask(60.0), fleet).tokens()
            assert await anext(tokens) == 5
            fleet.decode.members.append(PoolMember("d1", f"http://127.0.0.1:{other.port}"))
            freezing.frozen = True
            assert await anext(tokens) == 5
            assert fleet.decode.members[0].silent
            assert await all_of(Generation(ask(60.0), fleet).tokens()) == [5, 6]
        await other.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_only_decode_is_waited_for_while_it_is_frozen_and_taken_when_it_is_heard_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        freezing = Freezable(5, frozen=True)
        async with fleet_of(Node(gone), Node(freezing)) as fleet, beating(fleet, monkeypatch):
            (member,) = fleet.decode.members
            while not member.silent:
                await asyncio.sleep(0.02)
            with pytest.raises(GenerationFailed, match="no decode answers") as failure:
                await all_of(Generation(ask(0.5), fleet).tokens())
            assert (failure.value.status, failure.value.code) == (504, "deadline")
            waiting = Generation(Ask([1, 2, 3], 2, Sampling(temperature=0.0), 60.0), fleet).tokens()
            answering = asyncio.create_task(all_of(waiting))
            await asyncio.sleep(0.3)
            freezing.frozen = False
            assert await answering == [5, 6]
            assert not member.silent

    asyncio.run(asyncio.wait_for(scenario(), 30))
