"""The same model in one process, the plain transformers way: no cache of ours, no attention of ours, nothing split.

What the engine's tokens are compared with: by the tests, by the canary, by the demo.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdserve.architecture import read_architecture
from pdserve.digests import model_digests
from pdserve.tensors import torch_dtype
from pdwire import DType


@dataclass(frozen=True)
class ReferenceRun:
    """token_ids: the answer. margins: per token, the gap between the two largest log-probabilities (natural log)."""

    token_ids: list[int]
    margins: list[float]


class Reference:
    """One model, greedy. Raises as `load_model` does."""

    def __init__(self, path: Path, *, dtype: str = "float32", threads: int | None = None) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        if threads is not None:
            torch.set_num_threads(threads)
        self.architecture = read_architecture(path)
        self.digest = model_digests(path).model
        self._network: Any = AutoModelForCausalLM.from_pretrained(
            str(path), dtype=torch_dtype(DType.from_label(dtype)), local_files_only=True, trust_remote_code=False
        ).eval()
        # transformers 5.2x renamed the argument; the older name is the only one before.
        renamed = "cache" in inspect.signature(self._network.forward).parameters
        self._cache_keyword = "cache" if renamed else "past_key_values"

    def run(self, prompt: Sequence[int], max_tokens: int, *, ignore_eos: bool = False) -> ReferenceRun:
        """Greedy. Ends after max_tokens, or after an end-of-answer id, which is part of the answer."""
        import torch
        from transformers import DynamicCache

        token_ids: list[int] = []
        margins: list[float] = []
        new = list(prompt)
        cache = {self._cache_keyword: DynamicCache(config=self._network.config)}
        with torch.inference_mode():
            while True:
                output = self._network(input_ids=torch.tensor([new]), use_cache=True, logits_to_keep=1, **cache)
                best = output.logits[0, -1].float().log_softmax(dim=-1).topk(2)
                token_ids.append(int(best.indices[0]))
                margins.append(float(best.values[0] - best.values[1]))
                ended = token_ids[-1] in self.architecture.eos_ids and not ignore_eos
                if ended or len(token_ids) == max_tokens:
                    return ReferenceRun(token_ids, margins)
                new = token_ids[-1:]


NEAR_TIE = 1e-4
"""Two log-probabilities closer than this may change places between two correct float32 runs, whose sums are ordered
differently.
"""


def first_difference(reference: ReferenceRun, got: Sequence[int]) -> int | None:
    """Index of the first token that differs, or of the end of the shorter; None when equal."""
    for index, (expected, actual) in enumerate(zip(reference.token_ids, got, strict=False)):
        if expected != actual:
            return index
    shorter = min(len(reference.token_ids), len(got))
    return None if len(got) == len(reference.token_ids) else shorter


def is_near_tie(reference: ReferenceRun, index: int) -> bool:
    """Whether the reference itself could as well have chosen another token at that place."""
    return index < len(reference.margins) and reference.margins[index] < NEAR_TIE
