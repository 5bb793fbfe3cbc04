"""What vLLM makes of a configuration: the resolver of the engine `vllm`. Its options: vllm/engine/arg_utils.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdchecks.pair import vllm_values as values
from pdchecks.pair.backends import usable_backends
from pdchecks.pair.command import DescriptionError, Options, option_integer, option_json
from pdchecks.pair.side import Resolved, Side
from pdchecks.pair.vllm_faults import vllm_faults
from pdchecks.pair.vllm_options import unread_options
from pdchecks.unknown import Unknown
from pdwire import UNPACKED, ByteOrder, Layout
from pdwire.kvmodel import read_kv_model

OWN_CONNECTOR = "PdctlConnector"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSide(Resolved):
    """What NIXL's handshake and its checks look at, beside the record's fields.

    kv_dtype: the text of `--kv-cache-dtype` after vLLM resolved it, which is what is hashed. usable: attention
    backends this side could be told to use. transfer: the whole `--kv-transfer-config`.
    """

    dtype: str | Unknown
    kv_dtype: str
    tp_size: int
    pp_size: int
    block_tokens: int | Unknown
    backend: str | Unknown
    usable: tuple[str, ...] | Unknown
    hybrid_manager: str
    speculative: str
    transfer_mode: str
    cache_layout: str
    children: tuple[str, ...]
    transfer: Mapping[str, Any]

    @property
    def extra(self) -> Mapping[str, Any]:
        extra = self.transfer.get("kv_connector_extra_config")
        return extra if isinstance(extra, Mapping) else {}


def resolve_vllm(side: Side) -> VllmSide:
    """Raises DescriptionError, or ConfigError of pdwire.kvmodel."""
    options = side.options
    kv = read_kv_model(_overridden(side.config, options))
    transfer = option_json(options, "kv-transfer-config")
    connector, children = _connector(transfer)
    dtype = values.dtype(side, kv)
    kv_dtype = values.kv_dtype(options, kv)
    tp_size = option_integer(options, "tensor-parallel-size", 1)
    usable = usable_backends(kv.attention, kv_dtype, side.gpu, side.version)
    backend = values.backend(side, usable)
    block_tokens = values.block_tokens(side, kv, backend)
    return VllmSide(
        side=side,
        kv=kv,
        connector=connector,
        fields={
            "attention": kv.attention,
            "model_digest": side.weights,
            "tokenizer_digest": side.tokenizer,
            "rope": kv.rope,
            "layers": kv.layers,
            "kv_heads": kv.kv_heads,
            "head_dim": kv.head_dim,
            "dtype": values.wire_dtype(dtype, kv_dtype),
            "kv_scales": values.kv_scales(kv_dtype),
            "tp_size": tp_size,
            "block_tokens": block_tokens,
            "layout": Layout.TOKEN_MAJOR,
            "byte_order": ByteOrder.LITTLE,
            "isa_layout": UNPACKED if connector == "pdctl" else values.isa(side),
            "engine": "vllm",
            "engine_version": str(side.version) if not isinstance(side.version, Unknown) else side.version,
            "attention_backend": backend,
            "capacity_tokens": values.capacity(options, block_tokens),
        },
        faults=tuple(vllm_faults(side, kv, tp_size, usable, backend, kv_dtype)),
        unread=unread_options(options, kv),
        dtype=dtype,
        kv_dtype=kv_dtype,
        tp_size=tp_size,
        pp_size=option_integer(options, "pipeline-parallel-size", 1),
        block_tokens=block_tokens,
        backend=backend,
        usable=usable,
        hybrid_manager="off" if options.get("disable-hybrid-kv-cache-manager") == "true" else "default",
        speculative=_speculative(options),
        transfer_mode="push" if "NixlPushConnector" in (connector, *children) else "pull",
        cache_layout=_cache_layout(side),
        children=children,
        transfer=transfer,
    )


def _overridden(config: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """config.json as `--hf-overrides`, `--rope-scaling` and `--rope-theta` change it."""
    changed = dict(config)
    overrides = option_json(options, "hf-overrides")
    inner = overrides.pop("text_config", None) if isinstance(overrides, dict) else None
    changed.update(overrides)
    if isinstance(inner, dict) and isinstance(changed.get("text_config"), Mapping):
        changed["text_config"] = {**changed["text_config"], **inner}
    if "rope-scaling" in options:
        changed["rope_scaling"] = dict(option_json(options, "rope-scaling"))
    if "rope-theta" in options:
        try:
            changed["rope_theta"] = float(options["rope-theta"])
        except ValueError:
            raise DescriptionError(f"--rope-theta must be a number: {options['rope-theta']!r}") from None
    return changed


def _connector(transfer: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The name, and those that a MultiConnector holds. Without any, `pdctl up` adds ours."""
    name = transfer.get("kv_connector")
    if name in (None, OWN_CONNECTOR):
        return "pdctl", ()
    extra = transfer.get("kv_connector_extra_config")
    inner = extra.get("connectors", []) if isinstance(extra, Mapping) else []
    children = [child.get("kv_connector") for child in inner if isinstance(child, Mapping)]
    return str(name), tuple(str(child) for child in children)


_STATE_SPECULATORS = ("eagle", "mtp")
"""Methods whose configuration is hashed: those that hand hidden states on (`use_eagle()`)."""


def _speculative(options: Options) -> str:
    config = option_json(options, "speculative-config")
    method = str(config.get("method", ""))
    if not any(name in method for name in _STATE_SPECULATORS):
        return "none"
    hashed = ("method", "model", "revision", "parallel_drafting", "kv_cache_dtype")
    return json.dumps({key: config[key] for key in hashed if key in config}, sort_keys=True)


_LAYOUT_NAMES = {"HND": "LBHNC", "NHD": "LBNHC"}


def _cache_layout(side: Side) -> str:
    """NixlConnector asks for LBHNC (head-major blocks); the environment overrules it."""
    named = side.env.get("VLLM_KV_CACHE_LAYOUT", "LBHNC")
    return _LAYOUT_NAMES.get(named, named)
