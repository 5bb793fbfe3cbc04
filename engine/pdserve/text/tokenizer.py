"""Text to token ids and back, as the model directory defines it. The router's only part of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdserve.text.special_tokens import SpecialTokens


class ChatTemplateError(Exception):
    """The model has no chat template, or its template refuses these messages. The message is the template's own."""


class Tokenizer:
    """Thread-safe: it stays with the calls of the fast tokenizer that change nothing in it."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError or ValueError when the directory has no usable tokenizer."""
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(
            str(directory), local_files_only=True, trust_remote_code=False
        )
        fast = getattr(self._tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise ValueError(f"{directory}: no tokenizer.json, and none can be made of what is there")
        self._fast: Any = fast
        self._specials = SpecialTokens(fast)

    def encode(self, text: str) -> list[int]:
        """With the special tokens the model wants around a plain text."""
        ids: list[int] = self._fast.encode(text, add_special_tokens=True).ids
        return ids

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The conversation through the chat template, ending where the assistant begins. Raises ChatTemplateError.

        What looks like a special token in a message stays text.
        """
        from jinja2 import TemplateError

        if not self._tokenizer.chat_template:
            raise ChatTemplateError("this model has no chat template; use /v1/completions")
        quoted = self._specials.quote(messages)
        try:
            text = self._tokenizer.apply_chat_template(quoted.messages, add_generation_prompt=True, tokenize=False)
        except TemplateError as error:
            raise ChatTemplateError(f"the model's chat template refuses the messages: {error}") from None
        return self._specials.encode(text, quoted.mark)

    def decode(self, ids: Sequence[int]) -> str:
        """Without special tokens; bytes that are no character become U+FFFD."""
        text: str = self._fast.decode(list(ids), skip_special_tokens=True)
        return text
