"""The official client reads our answers as its own types."""

from __future__ import annotations

import pytest

pytest.importorskip("openai")

from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from pdserve.openai_api.shapes import ChatShape, CompletionShape, Usage

USAGE = Usage(5, 7)


def test_whole_answers_validate() -> None:
    text = Completion.model_validate(CompletionShape("cmpl-1", 1, "m").whole("hi", None, "stop", USAGE), strict=True)
    assert text.choices[0].text == "hi" and text.usage and text.usage.total_tokens == 12
    chat = ChatCompletion.model_validate(ChatShape("chatcmpl-1", 1, "m").whole("hi", [1], "length", USAGE), strict=True)
    assert chat.choices[0].message.content == "hi" and chat.choices[0].finish_reason == "length"


@pytest.mark.parametrize("with_usage", [True, False])
def test_chunks_validate(with_usage: bool) -> None:
    shape = ChatShape("chatcmpl-1", 1, "m", with_usage)
    opening = shape.opening()
    assert opening is not None
    for chunk in (opening, shape.piece("hi", None), shape.closing("stop", None)):
        read = ChatCompletionChunk.model_validate(chunk, strict=True)
        assert len(read.choices) == 1
        assert ("usage" in chunk) is with_usage and read.usage is None
    last = ChatCompletionChunk.model_validate(shape.usage(USAGE), strict=True)
    assert last.choices == [] and last.usage and last.usage.completion_tokens == 7
    Completion.model_validate(CompletionShape("cmpl-1", 1, "m").closing("stop", None))
