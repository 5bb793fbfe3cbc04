"""`/v1/completions`, `/v1/chat/completions` and `/v1/models`: parameters in, an Answer out."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pdserve.config import RouterConfig
from pdserve.http_json import BodyTooLarge, BodyTooSlow, CallerLeft, ClosingStream, read_body, unless_caller_leaves
from pdserve.logs import log
from pdserve.metrics import RouterMetrics
from pdserve.openai_api.answer import Answer
from pdserve.openai_api.errors import ApiError, invalid
from pdserve.openai_api.parameters import TIMEOUT_HEADER, ChatParameters, CompletionParameters, Parameters, parse
from pdserve.openai_api.shapes import ChatShape, CompletionShape, Shape
from pdserve.router.gate import Gate
from pdserve.router.generation import Ask, Fleet, Generation
from pdserve.sampling import Sampling
from pdserve.text.answer_text import AnswerText
from pdserve.text.tokenizer import ChatTemplateError, Tokenizer

Kind = TypeVar("Kind", bound=Parameters)
Maker: TypeAlias = Callable[[Request], Awaitable[tuple[Answer, Parameters]]]
# What keeps proxies from gathering a stream into one answer.
_SSE_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass
class OpenAiApi:
    """vocabulary, context: the model's, in tokens. in_reading: requests whose body is not whole yet."""

    config: RouterConfig
    tokenizer: Tokenizer
    fleet: Fleet
    gate: Gate
    metrics: RouterMetrics
    vocabulary: int
    context: int
    in_work: int = 0
    in_reading: int = 0
    draining: bool = False
    started: int = field(default_factory=lambda: int(time.time()))

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._model())

    def _model(self) -> dict[str, Any]:
        return {"id": self.config.model.name, "object": "model", "created": self.started, "owned_by": "pdctl"}

    async def completions(self, request: Request) -> Response:
        return await self._serve("completions", request, self._completion)

    async def chat(self, request: Request) -> Response:
        return await self._serve("chat", request, self._chat)

    async def _completion(self, request: Request) -> tuple[Answer, Parameters]:
        asked = await self._parameters(request, CompletionParameters)
        if isinstance(asked.prompt, str):
            text, ids = asked.prompt, await asyncio.to_thread(self.tokenizer.encode, asked.prompt)
        else:
            text, ids = self.tokenizer.decode(asked.prompt) if asked.echo else "", asked.prompt
        echo = text if asked.echo else ""
        shape = self._shape(CompletionShape, "cmpl", asked)
        return self._answer(asked, ids, asked.max_tokens or 16, shape, request, echo), asked

    async def _chat(self, request: Request) -> tuple[Answer, Parameters]:
        asked = await self._parameters(request, ChatParameters)
        messages = [{"role": message.role, "content": message.text} for message in asked.messages]
        try:
            ids = await asyncio.to_thread(self.tokenizer.encode_chat, messages)
        except ChatTemplateError as error:
            raise invalid("messages", str(error)) from None
        room = max(1, self.context - len(ids))
        tokens = asked.answer_tokens or min(self.config.default_max_tokens, room)
        return self._answer(asked, ids, tokens, self._shape(ChatShape, "chatcmpl", asked), request), asked

    async def _parameters(self, request: Request, kind: type[Kind]) -> Kind:
        self._check_open()
        self.in_reading += 1
        try:
            body = await read_body(request, self.config.max_body_bytes)
        except BodyTooLarge as error:
            raise ApiError(413, str(error), code="body_too_large") from None
        except BodyTooSlow as error:
            raise ApiError(408, str(error), code="body_too_slow") from None
        finally:
            self.in_reading -= 1
        asked = parse(body, kind)
        self._check_model(asked.model)
        return asked

    def _check_model(self, name: str) -> None:
        if name != self.config.model.name:
            message = f"the model `{name}` does not exist here; this router serves `{self.config.model.name}`"
            raise ApiError(404, message, code="model_not_found", param="model")

    def _check_open(self) -> None:
        if self.draining:
            raise ApiError(503, "this router is draining", code="not_ready")
        if not self.gate.is_open:
            raise ApiError(503, self.gate.reason, code="not_ready")
        taken = self.in_work + self.in_reading
        if taken >= self.config.max_requests:
            raise ApiError(503, f"{taken} requests are in work or being read already", code="busy")

    def _shape(self, kind: type[Shape], prefix: str, asked: Parameters) -> Shape:
        return kind(
            f"{prefix}-{secrets.token_hex(12)}", int(time.time()), asked.model, asked.stream_options.include_usage
        )

    def _answer(
        self, asked: Parameters, ids: list[int], max_tokens: int, shape: Shape, request: Request, echo: str = ""
    ) -> Answer:
        param = "prompt" if isinstance(asked, CompletionParameters) else "messages"
        if not ids:
            raise invalid(param, "has no tokens")
        if max(ids) >= self.vocabulary:
            raise invalid(param, f"token id {max(ids)} is outside 0..{self.vocabulary - 1}")
        if len(ids) + max_tokens > self.context:
            message = (
                f"the model's context is {self.context} tokens; {len(ids)} in the prompt and {max_tokens} to answer "
                f"are {len(ids) + max_tokens}"
            )
            raise ApiError(400, message, code="context_length_exceeded", param=param)
        sampling = Sampling(
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_k=asked.top_k,
            seed=secrets.randbits(63) if asked.seed is None else asked.seed,
            ignore_eos=asked.ignore_eos,
        )
        ask = Ask(ids, max_tokens, sampling, self._patience(asked, request))
        return Answer(
            generation=Generation(ask, self.fleet),
            text=AnswerText(self.tokenizer.decode, ids, asked.stop),
            shape=shape,
            echo=echo,
            with_token_ids=asked.return_token_ids,
            with_figures=asked.pdctl.figures,
        )

    def _patience(self, asked: Parameters, request: Request) -> float:
        header = request.headers.get(TIMEOUT_HEADER)
        if asked.timeout_s is not None or header is None:
            return asked.timeout_s or self.config.request_deadline_s
        try:
            seconds = float(header)
        except ValueError:
            seconds = 0.0
        if not 0.0 < seconds <= 86_400.0:
            raise invalid(TIMEOUT_HEADER, f"must be seconds, more than 0 and at most 86400: {header!r}")
        return seconds

    async def _serve(self, endpoint: str, request: Request, make: Maker) -> Response:
        try:
            answer, asked = await make(request)
            if not asked.stream:
                return JSONResponse(await unless_caller_leaves(request, self._whole(endpoint, answer)))
            # The first event is awaited here: a failure before it is an HTTP error, not a broken stream.
            events = self._events(endpoint, answer)
            first = await unless_caller_leaves(request, anext(events))
            return ClosingStream(_chain(first, events), media_type="text/event-stream", headers=_SSE_HEADERS)
        except ApiError as error:
            return JSONResponse(error.body(), status_code=error.status)
        except CallerLeft:
            return Response(status_code=499)

    async def _whole(self, endpoint: str, answer: Answer) -> dict[str, Any]:
        with self._work(endpoint, answer):
            return await answer.whole()

    async def _events(self, endpoint: str, answer: Answer) -> AsyncGenerator[bytes, None]:
        with self._work(endpoint, answer):
            async with aclosing(answer.events()) as events:
                async for event in events:
                    yield event

    @contextmanager
    def _work(self, endpoint: str, answer: Answer) -> Iterator[None]:
        """Counts the request while it is in work, and how it ended."""
        outcome = "client_left"
        self.in_work += 1
        self.metrics.running.set(self.in_work)
        try:
            yield
            outcome = answer.failure or "ok"
        except ApiError as error:
            outcome = error.code
            raise
        finally:
            self.in_work -= 1
            self.metrics.running.set(self.in_work)
            self.metrics.requests.labels(endpoint, outcome).inc()
            self.metrics.prompt_tokens.inc(answer.usage.prompt_tokens)
            self.metrics.generated_tokens.inc(answer.usage.completion_tokens)
            log("request", endpoint=endpoint, id=answer.shape.id, outcome=outcome, **answer.generation.figures.report())


async def _chain(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest) as events:
        yield first
        async for event in events:
            yield event
