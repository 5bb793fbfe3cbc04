"""The two answer shapes of OpenAI's API, whole and in pieces. Pure: they are given what to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int

    def body(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(frozen=True)
class Shape:
    """id: of the answer.

    created: Unix seconds. with_usage: the client asked for a usage chunk at the end of a stream.
    """

    id: str
    created: int
    model: str
    with_usage: bool = False

    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _chunk(self, choice: dict[str, Any], token_ids: list[int] | None, finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, **choice, "logprobs": None, "finish_reason": finish}
        if token_ids is not None:
            choice["token_ids"] = token_ids
        chunk = self._envelope(self.chunk_object, [choice])
        return chunk | {"usage": None} if self.with_usage else chunk

    def opening(self) -> dict[str, Any] | None:
        """Before the first text, where the shape has such a chunk."""
        return None

    def piece(self, text: str, token_ids: list[int] | None) -> dict[str, Any]:
        raise NotImplementedError

    def closing(self, finish_reason: str, token_ids: list[int] | None) -> dict[str, Any]:
        raise NotImplementedError

    def usage(self, usage: Usage) -> dict[str, Any]:
        """The last chunk, for a client that asked for it."""
        return self._envelope(self.chunk_object, []) | {"usage": usage.body()}

    def whole(self, text: str, token_ids: list[int] | None, finish_reason: str, usage: Usage) -> dict[str, Any]:
        choice = {"index": 0, **self._content(text), "logprobs": None, "finish_reason": finish_reason}
        if token_ids is not None:
            choice["token_ids"] = token_ids
        return self._envelope(self.whole_object, [choice]) | {"usage": usage.body()}

    def _content(self, text: str) -> dict[str, Any]:
        raise NotImplementedError


class CompletionShape(Shape):
    whole_object = chunk_object = "text_completion"

    def piece(self, text: str, token_ids: list[int] | None) -> dict[str, Any]:
        return self._chunk({"text": text}, token_ids, None)

    def closing(self, finish_reason: str, token_ids: list[int] | None) -> dict[str, Any]:
        return self._chunk({"text": ""}, token_ids, finish_reason)

    def _content(self, text: str) -> dict[str, Any]:
        return {"text": text}


class ChatShape(Shape):
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self) -> dict[str, Any] | None:
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None, None)

    def piece(self, text: str, token_ids: list[int] | None) -> dict[str, Any]:
        return self._chunk({"delta": {"content": text}}, token_ids, None)

    def closing(self, finish_reason: str, token_ids: list[int] | None) -> dict[str, Any]:
        return self._chunk({"delta": {}}, token_ids, finish_reason)

    def _content(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}
