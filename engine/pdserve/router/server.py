"""The router process: OpenAI's API in front of the two pools, and the control calls."""

from __future__ import annotations

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pdserve.architecture import read_architecture
from pdserve.config import RouterConfig
from pdserve.control_auth import ControlAuth
from pdserve.errors import EngineError
from pdserve.http_json import ControlGate, answer_engine_error, whose
from pdserve.http_server import Lifecycle, bind, serve
from pdserve.logs import log
from pdserve.metrics import CONTENT_TYPE, RouterMetrics
from pdserve.openai_api.endpoints import OpenAiApi
from pdserve.openai_api.errors import ApiError
from pdserve.router.control import Control
from pdserve.router.gate import Gate
from pdserve.router.generation import Fleet
from pdserve.router.heartbeat import watch
from pdserve.router.peers import Peers
from pdserve.router.pool import Pool
from pdserve.secret_file import SecretFile
from pdserve.text.tokenizer import Tokenizer


def _answer_http_error(request: Request, error: Exception) -> Response:
    """No such path, no such method: in the shape that clients read."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    code = "method_not_allowed" if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED else "not_found"
    body = ApiError(error.status_code, message, code=code).body()
    return JSONResponse(body, error.status_code, headers=error.headers)


def _answer_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error.body(), error.status)


def _answer_crash(_: Request, error: Exception) -> Response:
    """A fault of ours, which the log has in full."""
    return JSONResponse(ApiError(500, "internal error", code="internal_error").body(), 500)


class RouterServer:
    def __init__(self, config: RouterConfig) -> None:
        """Reads the model's config and tokenizer. Raises UnsupportedModel, ValueError or OSError."""
        architecture = read_architecture(config.model.path)
        self._config = config
        self._gate = Gate()
        self._metrics = RouterMetrics()
        secret = SecretFile.open(config.secret_file)
        self._peers = Peers(ControlAuth(secret))
        self._fleet = fleet = Fleet(
            prefill=Pool(config.prefill),
            decode=Pool(config.decode),
            peers=self._peers,
            metrics=self._metrics,
            layers=architecture.layers,
            eos_ids=architecture.eos_ids,
        )
        self._api = OpenAiApi(
            config=config,
            tokenizer=Tokenizer(config.model.path),
            fleet=fleet,
            gate=self._gate,
            metrics=self._metrics,
            vocabulary=architecture.vocabulary,
            context=architecture.context,
        )
        control = Control(self._gate, fleet, config.request_deadline_s)
        guard = ControlGate(secret).guard
        self.app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._text_metrics),
                Route("/v1/models", self._api.models),
                Route("/v1/models/{name:path}", self._api.model),
                Route("/v1/completions", self._api.completions, methods=["POST"]),
                Route("/v1/chat/completions", self._api.chat, methods=["POST"]),
                Route("/internal/state", guard(control.state)),
                Route("/internal/open", guard(control.open), methods=["POST"]),
                Route("/internal/close", guard(control.close), methods=["POST"]),
                Route("/internal/canary", guard(control.canary), methods=["POST"]),
            ],
            exception_handlers={
                EngineError: answer_engine_error,
                ApiError: _answer_api_error,
                HTTPException: _answer_http_error,
                Exception: _answer_crash,
            },
        )

    def run(self) -> int:
        """Blocks until told to stop; returns the exit code. Raises OSError when the port is taken."""
        bound = bind(self._config.listen)
        log("ready", role="router", name=self._config.name, url=self._config.listen.url)
        lifecycle = Lifecycle(self._begin_drain, self._busy, self._config.drain_s, self._fleet.stop)
        return serve(self.app, bound, lifecycle, beside=lambda: watch(self._fleet.members, self._peers))

    def _begin_drain(self) -> None:
        self._api.draining = True

    def _busy(self) -> bool:
        return self._api.in_work > 0

    async def _health(self, _: Request) -> Response:
        state = {"status": "draining"} if self._api.draining else self._gate.state()
        return JSONResponse(state | whose(self._config.run), status_code=200 if state["status"] == "open" else 503)

    async def _text_metrics(self, _: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)
