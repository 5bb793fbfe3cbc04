"""Holds an engine while its HTTP server already answers: loading, ready, draining."""

from __future__ import annotations

import gc
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pdserve.errors import NotReady
from pdserve.http_json import whose
from pdserve.http_server import Lifecycle
from pdserve.logs import log
from pdserve.metrics import CONTENT_TYPE, Metrics


class Engine(Protocol):
    @property
    def busy(self) -> bool: ...

    def close(self) -> None: ...


E = TypeVar("E", bound=Engine)


class EngineHost(Generic[E]):
    """build: loads the model and returns the engine and what `/v1/info` says of it; runs in a thread of its own.

    run: what `/health` says of whose process this is.

    A build that raises ends the process with exit code 1: a server that can never work must not look alive.
    """

    def __init__(
        self, build: Callable[[], tuple[E, dict[str, Any]]], metrics: Metrics, drain_s: float, run: str = ""
    ) -> None:
        self.boot_id = secrets.token_hex(8)
        self.lifecycle = Lifecycle(self._begin_drain, lambda: self._engine is not None and self._engine.busy, drain_s)
        self._build = build
        self._metrics = metrics
        self._run = run
        self._engine: E | None = None
        self._info: dict[str, Any] = {}
        self._draining = False
        self._thread = threading.Thread(target=self._load, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    @property
    def loaded(self) -> E:
        """For work that was taken on before. Raises NotReady while loading."""
        if self._engine is None:
            raise NotReady("the model is still loading")
        return self._engine

    @property
    def engine(self) -> E:
        """For new work. Raises NotReady while loading or draining."""
        if self._draining:
            raise NotReady("this process is draining")
        return self.loaded

    def _load(self) -> None:
        try:
            began = time.monotonic()
            engine, self._info = self._build()
            # What has been loaded stays: the collector need not walk through it again and again while tokens are due.
            gc.freeze()
            self._engine = engine
            log("ready", load_s=round(time.monotonic() - began, 2), **self._info)
        except Exception as error:
            log("load_failed", reason=f"{type(error).__name__}: {error}")
            self.lifecycle.fail()

    def _begin_drain(self) -> None:
        self._draining = True

    # Handlers that prefill and decode share

    async def health(self, _: Request) -> Response:
        loaded = self._engine is not None
        status = "draining" if self._draining else "ready" if loaded else "loading"
        busy = self._engine is not None and self._engine.busy
        body = {"status": status, "alive": True, "model_loaded": loaded, "busy": busy}
        return JSONResponse(body | whose(self._run), status_code=200 if status == "ready" else 503)

    async def info(self, _: Request) -> Response:
        if self._engine is None:
            raise NotReady("the model is still loading")
        return JSONResponse({**self._info, "boot_id": self.boot_id})

    async def metrics(self, _: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)
