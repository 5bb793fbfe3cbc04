"""What the bundled engine makes of a configuration: the resolver of the engine `torch`.

Its options are the keys of its own configuration file, in the file's spelling or with dashes:
`--model.dtype float32 --block-tokens 16`; `model.` may be left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from pdchecks.pair.command import DescriptionError, Options, option_integer
from pdchecks.pair.fields import PairField
from pdchecks.pair.side import Resolved, Side
from pdchecks.pair.vllm_faults import side_fault
from pdchecks.unknown import Unknown
from pdwire import UNPACKED, ByteOrder, Conversion, DType, Layout, LocalProtocolError
from pdwire.kvmodel import KvModel, read_kv_model

DEFAULT_DTYPE = "float32"
DEFAULT_BLOCK_TOKENS = 16
"""Defaults of the engine's configuration model (pdserve.config); a test compares them."""

_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")


def resolve_bundled(side: Side) -> Resolved:
    """Raises DescriptionError, or ConfigError of pdwire.kvmodel."""
    kv = read_kv_model(side.config)
    options = _canonical(side)
    try:
        dtype = DType.from_label(options.get("dtype", DEFAULT_DTYPE))
    except LocalProtocolError as error:
        raise DescriptionError(f"--dtype: {error}") from None
    return Resolved(
        side=side,
        kv=kv,
        connector="pdctl",
        fields={
            "attention": kv.attention,
            "model_digest": side.weights,
            "tokenizer_digest": side.tokenizer,
            "rope": kv.rope,
            "layers": kv.layers,
            "kv_heads": kv.kv_heads,
            "head_dim": kv.head_dim,
            "dtype": dtype,
            "kv_scales": (),
            "tp_size": 1,
            "block_tokens": option_integer(options, "block-tokens", DEFAULT_BLOCK_TOKENS),
            "layout": Layout.TOKEN_MAJOR,
            "byte_order": ByteOrder.LITTLE,
            "isa_layout": UNPACKED,
            "engine": "torch",
            "engine_version": str(side.version) if not isinstance(side.version, Unknown) else side.version,
            "attention_backend": _backend(side),
            "capacity_tokens": Unknown("the engine sizes its cache when it starts"),
        },
        faults=tuple(_faults(side, kv)),
        can=frozenset({Conversion.DTYPE, Conversion.ROUNDING} if _rounds(options) else {Conversion.DTYPE}),
        unread={name: value for name, value in options.items() if name in _ONE_FOR_BOTH},
    )


_READ = ("block-tokens", "dtype", "kv-rounding")
_SAID_ELSEWHERE = ("model", "revision", "tokenizer")
"""Options that every engine has here, which say what is served (describe.py)."""

_ONE_FOR_BOTH = ("security",)
"""Must be the same on both, which `pdctl up` sees to."""

_WITHOUT_EFFECT = (
    "chunk-tokens",
    "device",
    "drain-s",
    "kv-listen.host",
    "kv-listen.port",
    "kv-listen.transport",
    "kv-memory-bytes",
    "listen.host",
    "listen.port",
    "max-running",
    "max-waiting",
    "model.name",
    "model.path",
    "name",
    "recompute-chunk-tokens",
    "role",
    "run",
    "secret-file",
    "threads",
)
KNOWN_OPTIONS = (*_READ, *_SAID_ELSEWHERE, *_ONE_FOR_BOTH, *_WITHOUT_EFFECT)


def _canonical(side: Side) -> Options:
    """By one name each. Raises DescriptionError for an option that the engine does not have: it would be ignored."""
    options: dict[str, str] = {}
    for given, value in side.options.items():
        name = canonical_option(given)
        if name not in KNOWN_OPTIONS:
            if name == "config":
                raise DescriptionError(
                    f"{side.role}: the file of `--config` is not read here; give its keys as options"
                )
            near = difflib.get_close_matches(name, KNOWN_OPTIONS, 3)
            close = f"; did you mean {' or '.join(f'`--{one}`' for one in near)}?" if near else ""
            raise DescriptionError(f"{side.role}: the bundled engine has no option `--{given}`{close}")
        if options.setdefault(name, value) != value:
            raise DescriptionError(f"{side.role}: `--{name}` is given twice: {options[name]!r} and {value!r}")
    return options


def canonical_option(given: str) -> str:
    """`model.dtype` and `dtype`, `kv_listen.port` and `kv-listen.port`."""
    name = given.replace("_", "-")
    short = name.removeprefix("model.")
    return name if name in ("model.name", "model.path") else short


def _rounds(options: Mapping[str, str]) -> bool:
    """As pdserve.config: what loses nothing needs no leave."""
    text = options.get("kv-rounding", "false")
    if text not in ("true", "false"):
        raise DescriptionError(f"--kv-rounding must be true or false: {text!r}")
    return text == "true"


def _backend(side: Side) -> str | Unknown:
    if isinstance(side.gpu, Unknown):
        return side.gpu
    return "sdpa-cpu" if side.gpu.is_cpu else "sdpa-cuda"


def _faults(side: Side, kv: KvModel) -> Iterator[PairField]:
    """What the engine's loader refuses and the KV contract would not."""
    rope_type = str(kv.rope.get("rope_type"))
    fix = "serve this model with vLLM"
    if rope_type in _LENGTH_DEPENDENT_ROPE:
        reason = f"RoPE of type {rope_type} turns early tokens otherwise in a longer sequence"
        yield side_fault(side.role, "rope", rope_type, reason, fix)
    if side.config.get("attn_logit_softcapping") is not None:
        reason = "the bundled engine has no soft-capped attention"
        yield side_fault(side.role, "attention", "soft-capped logits", reason, fix)
