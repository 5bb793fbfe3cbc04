"""`python -m pdserve reference`: prompts in, the one-process run's tokens out, both as JSON (docs/engine.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pdserve.calls import TokenIds
from pdserve.reference import Reference
from pdserve.text.tokenizer import Tokenizer


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RunRequest(_Strict):
    """Exactly one of token_ids, prompt, messages."""

    token_ids: TokenIds | None = None
    prompt: str | None = None
    messages: list[dict[str, str]] | None = None
    max_tokens: int = Field(default=16, ge=1)
    ignore_eos: bool = False

    @model_validator(mode="after")
    def _one_prompt(self) -> RunRequest:
        if sum(given is not None for given in (self.token_ids, self.prompt, self.messages)) != 1:
            raise ValueError("give exactly one of token_ids, prompt, messages")
        return self


class ReferenceRequest(_Strict):
    runs: list[RunRequest] = Field(min_length=1)


def answer(request: ReferenceRequest, model: Path, dtype: str, threads: int | None) -> dict[str, Any]:
    """Raises as `Reference` does."""
    tokenizer = Tokenizer(model)
    reference = Reference(model, dtype=dtype, threads=threads)
    runs = []
    for asked in request.runs:
        prompt = _prompt(asked, tokenizer)
        run = reference.run(prompt, asked.max_tokens, ignore_eos=asked.ignore_eos)
        runs.append({"prompt_token_ids": prompt, "token_ids": run.token_ids, "margins": run.margins})
    return {"model_digest": reference.digest, "dtype": dtype, "runs": runs}


def _prompt(asked: RunRequest, tokenizer: Tokenizer) -> list[int]:
    if asked.token_ids is not None:
        return asked.token_ids
    if asked.prompt is not None:
        return tokenizer.encode(asked.prompt)
    return tokenizer.encode_chat(asked.messages or [])
