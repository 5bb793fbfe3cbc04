"""Runs one Starlette app on one bound socket until SIGTERM or SIGINT: drain, stop, return."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from pdserve.config import Listen
from pdserve.logs import log

Work: TypeAlias = Coroutine[Any, Any, None]
_BACKLOG = 512
# After the drain: what uvicorn may still spend on connections that do not close.
_CLOSE_SECONDS = 2
# From the connection, or the first byte of a later request on it, to the end of the request's head.
_HEAD_SECONDS = 10


def bind(listen: Listen) -> socket.socket:
    """Raises OSError. Done before a model is loaded, so that a port in use is known at once."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((listen.host, listen.port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{listen.host}:{listen.port}: {error.strerror}") from None
    return bound


@dataclass
class Lifecycle:
    """What ends a process: a signal, or `fail` from any thread.

    begin_drain: refuse new work. busy: whether work is left. end_work: tell what is left after the drain that it ends,
    so that it can still say so to whoever waits for it.
    """

    begin_drain: Callable[[], None]
    busy: Callable[[], bool]
    drain_s: float
    end_work: Callable[[], None] = lambda: None
    failed: bool = False

    def __post_init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        if self.failed:
            self._stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    def fail(self) -> None:
        """The process cannot do its work: stop, and exit 1."""
        self.failed = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def until_drained(self) -> None:
        await self._stop.wait()
        log("stopping", drain_s=self.drain_s)
        self.begin_drain()
        end = asyncio.get_running_loop().time() + self.drain_s
        while not self.failed and self.busy() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)


class _Protocol(H11Protocol):
    """uvicorn waits for ever for the head of a request; a connection on which none comes is closed."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head_timer is None and self.conn.trailing_data[0]:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.close)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise the signal again after a clean stop; the exit code would then say it was not one."""
        yield


async def _nothing() -> None:
    """What most servers do besides serving."""


def serve(app: ASGIApp, bound: socket.socket, lifecycle: Lifecycle, beside: Callable[[], Work] = _nothing) -> int:
    """Blocks. Returns the process's exit code: 0 after a stop that was asked for, 1 after a failure.

    beside: runs in the server's loop until the end.
    """
    asyncio.run(_serve(app, bound, lifecycle, beside))
    return 1 if lifecycle.failed else 0


async def _serve(
    app: ASGIApp, bound: socket.socket, lifecycle: Lifecycle, beside: Callable[[], Work] = _nothing
) -> None:
    settings: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off", "http": _Protocol}
    server = _Server(uvicorn.Config(app, timeout_graceful_shutdown=_CLOSE_SECONDS, **settings))
    lifecycle.attach(asyncio.get_running_loop())
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    draining = asyncio.create_task(lifecycle.until_drained())
    working = asyncio.create_task(beside())
    await asyncio.wait({serving, draining}, return_when=asyncio.FIRST_COMPLETED)
    lifecycle.end_work()
    server.should_exit = True
    await serving
    draining.cancel()
    working.cancel()
