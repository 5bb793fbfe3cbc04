"""The seam into transformers: every layer's attention becomes a call of the context that the caller passed to the
model.

How it is meant to work: `model.model(input_ids=[1, T], position_ids=[1, T], use_cache=False, kv_context=context)`.
Each layer hands us q, k and v after RoPE; `context.attend` stores k and v where its engine keeps them and returns the
attention of q over everything that each token may see. Causality is therefore ours: transformers makes no mask for an
attention that it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

ATTENTION_NAME = "pdserve"


class AttentionContext(Protocol):
    """What one forward pass knows about its sequences."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """query: [T, heads, head_dim]; key, value: [T, kv_heads, head_dim]; all after RoPE.

        Returns [T, heads, head_dim].
        """
        ...


def register_attention() -> None:
    """Makes `attn_implementation="pdserve"` known to transformers. Any number of times."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, _attention)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    kv_context: AttentionContext,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' signature; q, k, v: [1, heads or kv_heads, T, head_dim]. Returns [1, T, heads, head_dim]."""
    if sliding_window is not None or softcap is not None or s_aux is not None:
        raise NotImplementedError(
            "this layer asks for a sliding window, a soft cap or sinks; full attention would be wrong"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    return kv_context.attend(layer, query, key, value, scale)[None], None


def causal_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """The last T of S tokens attend to all before and to themselves (a causal mask aligned bottom right).

    query: [T, heads, head_dim]; key, value: [S, kv_heads, head_dim], S >= T. Returns [T, heads, head_dim].
    """
    import torch

    new, seen = query.shape[0], key.shape[0]
    mask = None
    if 1 < new < seen:
        mask = torch.ones(new, seen, dtype=torch.bool, device=query.device).tril(seen - new)
    output = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        key.transpose(0, 1)[None],
        value.transpose(0, 1)[None],
        attn_mask=mask,
        is_causal=1 < new == seen,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output[0].transpose(0, 1)
