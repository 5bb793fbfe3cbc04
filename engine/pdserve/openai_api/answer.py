"""Joins a generation, its text and its shape: the whole JSON answer, or the server-sent events of a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pdserve.openai_api.errors import ApiError
from pdserve.openai_api.parameters import TIMEOUT_HEADER
from pdserve.openai_api.shapes import Shape, Usage
from pdserve.router.generation import Generation, GenerationFailed
from pdserve.text.answer_text import AnswerText

DONE = b"data: [DONE]\n\n"


@dataclass
class Answer:
    """One answer in the making. echo: text that stands before it (completions' `echo`)."""

    generation: Generation
    text: AnswerText
    shape: Shape
    echo: str = ""
    with_token_ids: bool = False
    with_figures: bool = False
    token_ids: list[int] = field(default_factory=list)
    failure: str | None = None

    async def _pieces(self) -> AsyncGenerator[str, None]:
        """Text as it becomes certain, one string (perhaps empty) a token. Leaves when a stop string is met."""
        async with aclosing(self.generation.tokens()) as tokens:
            async for token in tokens:
                self.token_ids.append(token)
                yield self.text.push(token)
                if self.text.stopped:
                    return
        yield self.text.finish()

    @property
    def finish_reason(self) -> str:
        return "stop" if self.text.stopped else self.generation.finish_reason

    @property
    def usage(self) -> Usage:
        return Usage(self.generation.figures.prompt_tokens, len(self.token_ids))

    def _figures(self) -> dict[str, Any]:
        return {"pdctl": self.generation.figures.report()} if self.with_figures else {}

    async def whole(self) -> dict[str, Any]:
        """Raises ApiError."""
        try:
            async with aclosing(self._pieces()) as pieces:
                text = self.echo + "".join([piece async for piece in pieces])
        except GenerationFailed as failure:
            raise api_error(failure) from None
        ids = self.token_ids if self.with_token_ids else None
        return self.shape.whole(text, ids, self.finish_reason, self.usage) | self._figures()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Server-sent events. The first one is made before anything is sent, so that an early failure is an HTTP error.

        Raises ApiError before the first event; a later failure is an error event, and then no [DONE].
        """
        begun = False
        try:
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    begun = True
                    yield _sse(chunk)
            yield DONE
        except GenerationFailed as failure:
            self.failure = failure.code
            if not begun:
                raise api_error(failure) from None
            yield _sse(api_error(failure).body())

    async def _chunks(self) -> AsyncGenerator[dict[str, Any], None]:
        held: list[int] = []  # ids whose text is not certain yet
        before: list[dict[str, Any]] = [chunk for chunk in [self.shape.opening()] if chunk]
        if self.echo:
            before.append(self.shape.piece(self.echo, [] if self.with_token_ids else None))
        sent = 0
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                for chunk in before:
                    yield chunk
                before = []
                held = self.token_ids[sent:]
                if piece:
                    yield self.shape.piece(piece, held if self.with_token_ids else None)
                    sent, held = len(self.token_ids), []
        closing = self.shape.closing(self.finish_reason, held if self.with_token_ids else None)
        if self.shape.with_usage:
            yield closing
            yield self.shape.usage(self.usage) | self._figures()
        else:
            yield closing | self._figures()


def api_error(failure: GenerationFailed) -> ApiError:
    longer = f"; to wait longer, send `timeout_s` (seconds) in the body or the header `{TIMEOUT_HEADER}`"
    hint = longer if failure.code == "deadline" else ""
    return ApiError(failure.status, f"{failure}{hint}", code=failure.code)


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
