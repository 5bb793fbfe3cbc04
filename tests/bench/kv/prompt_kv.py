"""The KV of one real prompt, computed by the embedded model: `python -m tests.bench.kv.prompt_kv MODEL`.

On stdout: the workload as a line of JSON, then the KV in its form.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.kv.workload import Workload, to_json

from pdserve.attention import causal_attention
from pdserve.config import ModelConfig
from pdserve.model import LoadedModel, load_model
from pdserve.tensors import byte_view
from pdserve.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import torch

TOKENS, CHUNK = 1024, 256
TEXT = Path(__file__).parents[3] / "docs" / "wire.md"


class Keep:
    """Attention context of the whole prompt at once. kv: [layers, 2, tokens, kv_heads, head_dim]."""

    def __init__(self, kv: torch.Tensor) -> None:
        self._kv = kv

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        self._kv[layer, 0], self._kv[layer, 1] = key, value
        return causal_attention(query, key, value, scale)


def compute(model: LoadedModel, token_ids: list[int]) -> torch.Tensor:
    import torch

    shape = model.architecture
    kv = torch.empty(shape.layers, 2, len(token_ids), shape.kv_heads, shape.head_dim, dtype=model.torch_dtype)
    with torch.no_grad():
        model.forward(token_ids, range(len(token_ids)), Keep(kv), [len(token_ids) - 1])
    return kv


def main() -> None:
    directory = Path(sys.argv[1])
    model = load_model(ModelConfig(path=directory, name="bench", threads=1))
    token_ids = Tokenizer(directory).encode(TEXT.read_text(encoding="utf-8"))[:TOKENS]
    assert len(token_ids) == TOKENS
    shape = model.architecture
    workload = Workload(
        f"a prompt of {TOKENS} tokens", shape.layers, TOKENS, CHUNK, shape.kv_heads, shape.head_dim, model.dtype.label
    )
    out = sys.stdout.buffer
    out.write(to_json(workload).encode() + b"\n")
    out.write(byte_view(compute(model, token_ids)))


if __name__ == "__main__":
    main()
