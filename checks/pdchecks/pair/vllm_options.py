"""Which of vLLM's options the judge has read, and which cannot matter to KV. Everything else is never called equal.

Names: vllm/engine/arg_utils.py and vllm/entrypoints/openai/cli_args.py of 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from pdchecks.pair.command import Options, option_json
from pdwire.kvmodel import KvModel

READ = frozenset(
    {
        "attention-backend",
        "block-size",
        "calculate-kv-scales",
        "disable-hybrid-kv-cache-manager",
        "dtype",
        "enable-lora",
        "hf-overrides",
        "kv-cache-dtype",
        "kv-transfer-config",
        "lora-modules",
        "model",
        "num-gpu-blocks-override",
        "pipeline-parallel-size",
        "quantization",
        "revision",
        "rope-scaling",
        "rope-theta",
        "speculative-config",
        "tensor-parallel-size",
        "tokenizer",
    }
)
"""By a resolver or a rule, also in their dotted form. `attention-config` is read in part."""

WITHOUT_EFFECT = frozenset(
    {
        "allow-credentials",
        "allowed-headers",
        "allowed-methods",
        "allowed-origins",
        "api-key",
        "api-server-count",
        "async-scheduling",
        "chat-template",
        "chat-template-content-format",
        "collect-detailed-traces",
        "compilation-config",
        "cpu-offload-gb",
        "cuda-graph-sizes",
        "cudagraph-capture-sizes",
        "data-parallel-address",
        "data-parallel-backend",
        "data-parallel-external-lb",
        "data-parallel-hybrid-lb",
        "data-parallel-rank",
        "data-parallel-rpc-port",
        "data-parallel-size",
        "data-parallel-size-local",
        "data-parallel-start-rank",
        "disable-access-log-for-endpoints",
        "disable-cascade-attn",
        "disable-custom-all-reduce",
        "disable-fastapi-docs",
        "disable-frontend-multiprocessing",
        "disable-log-requests",
        "disable-log-stats",
        "disable-uvicorn-access-log",
        "distributed-executor-backend",
        "download-dir",
        "enable-auto-tool-choice",
        "enable-chunked-prefill",
        "enable-expert-parallel",
        "enable-force-include-usage",
        "enable-log-outputs",
        "enable-log-requests",
        "enable-prefix-caching",
        "enable-prompt-tokens-details",
        "enable-request-id-headers",
        "enable-server-load-tracking",
        "enable-sleep-mode",
        "enable-ssl-refresh",
        "enforce-eager",
        "generation-config",
        "gpu-memory-utilization",
        "guided-decoding-backend",
        "h11-max-header-count",
        "h11-max-incomplete-event-size",
        "headless",
        "host",
        "kv-cache-memory-bytes",
        "kv-events-config",
        "log-config-file",
        "log-error-stack",
        "logits-processors",
        "logprobs-mode",
        "long-prefill-token-threshold",
        "master-addr",
        "master-port",
        "max-log-len",
        "max-logprobs",
        "max-long-partial-prefills",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-partial-prefills",
        "max-num-seqs",
        "max-parallel-loading-workers",
        "middleware",
        "nnodes",
        "node-rank",
        "optimization-level",
        "otlp-traces-endpoint",
        "override-generation-config",
        "port",
        "prefix-caching-hash-algo",
        "reasoning-parser",
        "response-role",
        "return-tokens-as-token-ids",
        "root-path",
        "safetensors-load-strategy",
        "scheduler-cls",
        "scheduling-policy",
        "seed",
        "served-model-name",
        "show-hidden-metrics-for-version",
        "ssl-ca-certs",
        "ssl-cert-reqs",
        "ssl-certfile",
        "ssl-ciphers",
        "ssl-keyfile",
        "stream-interval",
        "structured-outputs-config",
        "swap-space",
        "tool-call-parser",
        "tool-parser-plugin",
        "trust-remote-code",
        "uds",
        "use-tqdm-on-load",
        "uvicorn-log-level",
    }
)
"""Where it listens, who may ask, what it logs, how much it takes at a time, how kernels are launched, what is sampled:
none of it changes what K and V of a token are, or where in a block they lie."""

_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope", "su")


def unread_options(options: Options, kv: KvModel) -> Mapping[str, str]:
    """Those that may matter and that nothing here looks at, with their values."""
    unread = {name: value for name, value in options.items() if not _settled(name, kv)}
    rest = {key: value for key, value in option_json(options, "attention-config").items() if key != "backend"}
    if rest:
        unread["attention-config"] = ", ".join(f"{key}={value}" for key, value in sorted(rest.items()))
    return unread


def _settled(name: str, kv: KvModel) -> bool:
    stem = name.partition(".")[0]
    if stem == "max-model-len":  # vLLM picks longrope's factors by it
        return str(kv.rope.get("rope_type")) not in _LENGTH_DEPENDENT_ROPE
    return stem == "attention-config" or stem in READ or stem.removeprefix("no-") in WITHOUT_EFFECT
