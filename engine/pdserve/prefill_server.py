"""The prefill process: `POST /v1/prefill` in front of a PrefillEngine."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pdserve.calls import PrefillAnswer, PrefillCall, PrefillFigures
from pdserve.config import PrefillConfig
from pdserve.engine_host import EngineHost
from pdserve.engine_info import engine_info
from pdserve.errors import BadRequest, EngineError, Incompatible, TransferBroken
from pdserve.http_json import (
    CallerLeft,
    ControlGate,
    answer_engine_error,
    awaited,
    read_call,
    unless_caller_leaves,
)
from pdserve.http_server import bind, serve
from pdserve.ledger import document
from pdserve.logs import log
from pdserve.metrics import PrefillMetrics
from pdserve.model import load_model
from pdserve.prefill import PrefillEngine, PrefillJob, PrefillResult
from pdserve.secret_file import SecretFile
from pdserve.transport.base import Connects, TransferFailed, Transport
from pdserve.transport.by_scheme import ByScheme
from pdserve.transport.security import TransportSecurity
from pdwire import IncompatiblePeer


class PrefillServer:
    def __init__(self, config: PrefillConfig, transport: Transport | None = None) -> None:
        self._config = config
        secret = SecretFile.open(config.secret_file)
        self._transport: Connects
        if transport is None:
            self._transport = by_scheme = ByScheme(TransportSecurity.of(config.security, secret), config.can)
            self._transports = by_scheme.names
        else:
            self._transport, self._transports = transport, (transport.name,)
        self._metrics = PrefillMetrics()
        self._host = EngineHost(self._build, self._metrics, config.drain_s, config.run)
        guard = ControlGate(secret).guard
        self.app = Starlette(
            routes=[
                Route("/health", self._host.health),
                Route("/metrics", self._host.metrics),
                Route("/v1/info", guard(self._host.info)),
                Route("/v1/ledger", guard(self._ledger)),
                Route("/v1/prefill", guard(self._prefill), methods=["POST"]),
            ],
            exception_handlers={EngineError: answer_engine_error},
        )

    def run(self) -> int:
        """Blocks until told to stop; returns the exit code. Raises OSError when the port is taken."""
        bound = bind(self._config.listen)
        self._host.start()
        try:
            return serve(self.app, bound, self._host.lifecycle)
        finally:
            self._host.close()

    def _build(self) -> tuple[PrefillEngine, dict[str, Any]]:
        config = self._config
        model = load_model(config.model)
        record = model.compat_record(
            name=config.name,
            block_tokens=1,  # no blocks: a prompt's KV lies in one buffer
            capacity_tokens=model.architecture.context,
            transports=self._transports,
        )
        engine = PrefillEngine(
            model, self._transport, record, chunk_tokens=config.chunk_tokens, max_waiting=config.max_waiting
        )
        return engine, engine_info(config, record)

    async def _ledger(self, _: Request) -> Response:
        return JSONResponse(document("prefill", self._config.name, self._host.loaded.held))

    async def _prefill(self, request: Request) -> Response:
        call = await read_call(request, PrefillCall)
        job = PrefillJob(call.request, call.token_ids, call.sampling, call.ticket.address, call.deadline())
        try:
            self._host.engine.submit(job)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        self._metrics.running.inc()
        try:
            result = await unless_caller_leaves(request, awaited(job.result))
        except CallerLeft:
            job.cancelled.set()
            log("prefill_abandoned", request=call.request_id)
            return Response(status_code=499)
        except EngineError as error:
            self._metrics.failed.labels(error.code).inc()
            raise
        except IncompatiblePeer as error:
            raise Incompatible(str(error)) from None
        except TransferFailed as error:
            self._metrics.transfer(0, 0, 0.0, str(error))
            raise TransferBroken(str(error)) from None
        finally:
            self._metrics.running.dec()
        return self._answer(call, result)

    def _answer(self, call: PrefillCall, result: PrefillResult) -> Response:
        self._metrics.prompt_tokens.inc(len(call.token_ids))
        self._metrics.compute_seconds.observe(result.prefill_seconds)
        self._metrics.queue_seconds.observe(result.queue_seconds)
        self._metrics.transfer(result.kv_bytes, result.frames, result.kv_seconds, None)
        figures = PrefillFigures(
            frames=result.frames,
            kv_bytes=result.kv_bytes,
            kv_seconds=result.kv_seconds,
            kv_exposed_seconds=result.kv_exposed_seconds,
            prefill_seconds=result.prefill_seconds,
            queue_seconds=result.queue_seconds,
        )
        log("prefilled", request=call.request_id, prompt_tokens=len(call.token_ids), **figures.model_dump())
        answer = PrefillAnswer(request_id=call.request_id, first_token=result.first_token, figures=figures)
        return JSONResponse(answer.model_dump())
