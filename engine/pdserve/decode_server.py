"""The decode process: reservations, the token stream, and the KV listener, in front of a DecodeEngine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pdserve.calls import AbortCall, CaptureCall, GenerateCall, ReserveCall, Ticket
from pdserve.capture import CapturingSink, Recording
from pdserve.config import DecodeConfig
from pdserve.decode import DecodeEngine
from pdserve.decode_request import DecodeEvent, Failed, Finished, NewTokens, Work
from pdserve.engine_host import EngineHost
from pdserve.engine_info import engine_info
from pdserve.errors import EngineError, NotReady
from pdserve.http_json import (
    CallerLeft,
    ClosingStream,
    ControlGate,
    answer_engine_error,
    awaited,
    error_body,
    json_line,
    read_call,
    unless_caller_leaves,
)
from pdserve.http_server import bind, serve
from pdserve.kv_cache import KvCache
from pdserve.kv_receiver import KvReceiver
from pdserve.ledger import document
from pdserve.logs import log
from pdserve.metrics import DecodeMetrics
from pdserve.model import load_model
from pdserve.secret_file import SecretFile
from pdserve.transport.base import KvListener, Transport
from pdserve.transport.by_scheme import TRANSPORTS
from pdserve.transport.security import TransportSecurity


class DecodeServer:
    def __init__(self, config: DecodeConfig, transport: Transport | None = None) -> None:
        self._config = config
        secret = SecretFile.open(config.secret_file)
        security = TransportSecurity.of(config.security, secret)
        self._transport = (
            TRANSPORTS[config.kv_listen.transport](security, config.can) if transport is None else transport
        )
        self._listener: KvListener | None = None
        self._sink: CapturingSink | None = None
        self._metrics = DecodeMetrics()
        self._host = EngineHost(self._build, self._metrics, config.drain_s, config.run)
        guard = ControlGate(secret).guard
        self.app = Starlette(
            routes=[
                Route("/health", self._host.health),
                Route("/metrics", self._host.metrics),
                Route("/v1/info", guard(self._host.info)),
                Route("/v1/ledger", guard(self._ledger)),
                Route("/v1/reserve", guard(self._reserve), methods=["POST"]),
                Route("/v1/generate", guard(self._generate), methods=["POST"]),
                Route("/v1/transfers", guard(self._transfers)),
                Route("/v1/capture", guard(self._capture), methods=["POST"]),
                Route("/v1/abort", guard(self._abort), methods=["POST"]),
            ],
            exception_handlers={EngineError: answer_engine_error},
        )

    def run(self) -> int:
        """Blocks until told to stop; returns the exit code. Raises OSError when a port is taken."""
        bound = bind(self._config.listen)
        if self._transport.name != "shm":
            bind(self._config.kv_listen).close()  # known now, not after the model has loaded
        self._host.start()
        try:
            return serve(self.app, bound, self._host.lifecycle)
        finally:
            if self._listener is not None:
                self._listener.close()
            self._host.close()

    def _build(self) -> tuple[DecodeEngine, dict[str, Any]]:
        config = self._config
        model = load_model(config.model)
        cache = KvCache(
            model.architecture,
            model.dtype,
            config.model.device,
            block_tokens=config.block_tokens,
            memory_bytes=config.kv_memory_bytes,
            shared=self._transport.name == "shm",
        )
        self._metrics.kv_blocks.set(cache.blocks)
        self._metrics.kv_blocks_free.set(cache.free_blocks)
        record = model.compat_record(
            name=config.name,
            block_tokens=config.block_tokens,
            capacity_tokens=cache.capacity_tokens,
            transports=(self._transport.name,),
        )
        receiver = KvReceiver(cache, can=config.can)
        self._sink = sink = CapturingSink(receiver)
        self._listener = self._transport.listen(config.kv_listen.host, config.kv_listen.port, record, sink)
        engine = DecodeEngine(
            model,
            cache,
            receiver,
            self._metrics,
            max_running=config.max_running,
            max_waiting=config.max_waiting,
            chunk_tokens=config.recompute_chunk_tokens,
        )
        return engine, engine_info(config, record) | {"kv_address": self._listener.address, "kv_blocks": cache.blocks}

    async def _ledger(self, _: Request) -> Response:
        return JSONResponse(document("decode", self._config.name, self._host.loaded.held))

    async def _transfers(self, _: Request) -> Response:
        return JSONResponse(self._host.loaded.transfers.document(self._config.name))

    async def _capture(self, request: Request) -> Response:
        call = await read_call(request, CaptureCall)
        if self._sink is None:
            raise NotReady("the model is still loading")
        recording = self._sink.record(max_bytes=call.max_bytes, max_transfers=call.max_transfers, seconds=call.seconds)
        log("capture_begins", **call.model_dump())
        return ClosingStream(_frames(recording), media_type="application/octet-stream")

    async def _reserve(self, request: Request) -> Response:
        call = await read_call(request, ReserveCall)
        engine = self._host.engine
        granted = engine.reserve(call.request, call.prompt_tokens, call.max_tokens, call.deadline())
        try:
            await unless_caller_leaves(request, awaited(granted))
        except CallerLeft:
            engine.abort(call.request, "the router left while waiting for blocks")
            return Response(status_code=499)
        assert self._listener is not None
        ticket = Ticket(request_id=call.request_id, address=self._listener.address, prompt_tokens=call.prompt_tokens)
        return JSONResponse({"ticket": ticket.model_dump()})

    async def _generate(self, request: Request) -> Response:
        call = await read_call(request, GenerateCall)
        engine = self._host.loaded
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[DecodeEvent] = asyncio.Queue()

        def emit(event: DecodeEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is left to tell
                loop.call_soon_threadsafe(events.put_nowait, event)

        engine.attach(call.request, Work(call.token_ids, call.sampling, call.recompute, emit))
        return ClosingStream(self._lines(engine, call, events), media_type="application/x-ndjson")

    async def _lines(
        self, engine: DecodeEngine, call: GenerateCall, events: asyncio.Queue[DecodeEvent]
    ) -> AsyncGenerator[bytes, None]:
        over = False
        try:
            while not over:
                event = await events.get()
                match event:
                    case NewTokens(token_ids):
                        yield json_line({"token_ids": token_ids})
                    case Finished(reason):
                        over = True
                        yield json_line({"finish_reason": reason})
                    case Failed(error):
                        over = True
                        log("decode_failed", request=call.request_id, code=error.code, reason=str(error))
                        yield json_line(error_body(error))
        finally:
            if not over:
                self._drop(engine, call.request, "the router left")
                log("decode_abandoned", request=call.request_id)

    async def _abort(self, request: Request) -> Response:
        call = await read_call(request, AbortCall)
        known = self._drop(self._host.loaded, call.request, call.reason)
        return JSONResponse({"aborted": known})

    def _drop(self, engine: DecodeEngine, request: bytes, reason: str) -> bool:
        """Ends it here, and spares prefill the rest of its pushing."""
        known = engine.abort(request, reason)
        if self._listener is not None:
            self._listener.abort(request, reason)
        return known


async def _frames(recording: Recording) -> AsyncGenerator[bytes, None]:
    pieces = iter(recording)
    try:
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece
    finally:
        recording.close("its reader left")
        log("capture_ends")
