"""A Hugging Face model directory, loaded for either pool. One flat pass; logits only where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdserve.architecture import Architecture, read_architecture
from pdserve.attention import ATTENTION_NAME, AttentionContext, register_attention
from pdserve.digests import ModelDigests, model_digests
from pdserve.tensors import torch_dtype
from pdwire import CompatRecord, DType

if TYPE_CHECKING:
    import torch

    from pdserve.config import ModelConfig


@dataclass(frozen=True)
class LoadedModel:
    """Weights in memory. Used by one thread at a time: the engine's loop."""

    path: Path
    architecture: Architecture
    digests: ModelDigests
    dtype: DType
    network: Any  # transformers' ...ForCausalLM, whose classes are not typed

    @property
    def device(self) -> torch.device:
        device: torch.device = self.network.device
        return device

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch_dtype(self.dtype)

    def forward(
        self, token_ids: Sequence[int], positions: Sequence[int], context: AttentionContext, rows: Sequence[int]
    ) -> torch.Tensor:
        """One pass over T tokens, which may belong to several sequences: `context` knows which.

        Returns float32 logits [len(rows), vocabulary] of the chosen rows alone: logits of a whole prompt would be the
        largest tensor of a prefill and are never used.
        """
        import torch

        with torch.inference_mode():
            hidden = self.network.model(
                input_ids=torch.tensor([token_ids], device=self.device),
                position_ids=torch.tensor([positions], device=self.device),
                use_cache=False,
                kv_context=context,
            ).last_hidden_state[0]
            chosen = hidden if list(rows) == list(range(len(token_ids))) else hidden[list(rows)]
            logits: torch.Tensor = self.network.lm_head(chosen).float()
            return logits

    def compat_record(
        self, *, name: str, block_tokens: int, capacity_tokens: int, transports: tuple[str, ...]
    ) -> CompatRecord:
        """What the peer compares with its own before any KV moves."""
        import torch
        import transformers

        shape = self.architecture
        return CompatRecord(
            name=name,
            model_digest=self.digests.model,
            tokenizer_digest=self.digests.tokenizer,
            rope={
                key.removeprefix("rope_") if key == "rope_theta" else key: _flat(value)
                for key, value in shape.rope.items()
            },
            layers=shape.layers,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            dtype=self.dtype,
            engine="torch",
            engine_version=f"torch {torch.__version__}, transformers {transformers.__version__}",
            attention_backend=f"sdpa-{self.device.type}",
            block_tokens=block_tokens,
            capacity_tokens=capacity_tokens,
            transports=transports,
        )


def _flat(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def load_model(config: ModelConfig) -> LoadedModel:
    """Reads weights, tokenizer digests and shape from a local directory; never from a hub, never running code from it.

    Raises UnsupportedModel, ValueError or OSError, each saying what is wrong with the directory.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    architecture = read_architecture(config.path)
    dtype = DType.from_label(config.dtype)
    register_attention()
    # Any: transformers' decorators hide the module's own signatures from type checkers.
    network: Any = AutoModelForCausalLM.from_pretrained(
        str(config.path),
        dtype=torch_dtype(dtype),
        attn_implementation=ATTENTION_NAME,
        local_files_only=True,
        trust_remote_code=False,
    )
    return LoadedModel(
        path=config.path,
        architecture=architecture,
        digests=model_digests(config.path),
        dtype=dtype,
        network=network.to(config.device).eval(),
    )
