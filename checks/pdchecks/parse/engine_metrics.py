"""/metrics of serving engines in Prometheus' text format: ours, vLLM's and SGLang's, under common names.

running, waiting, deferred: requests now. kv_usage: share of KV blocks in use. blocks, blocks_free: of the paged cache.
fetched: tokens of KV that came from another engine. preemptions, requests, recomputed, prompts, transfers, transfers_failed,
checksum_failures, kv_expired: counts since the process began. queue_s, compute_s: seconds that prompts waited and were
computed, together.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.engine import EngineMetrics
from pdchecks.parse.reader import Reader, lines_with, mentions
from pdchecks.unknown import Unknown

# engine/pdserve/metrics.py; docs.vllm.ai, usage/metrics; docs.sglang.io, references/production_metrics. Older vLLM says
# gpu_cache_usage_perc.
_FIELDS = {
    "pdserve_requests_running": "running",
    "pdserve_requests_waiting": "waiting",
    "pdserve_kv_blocks": "blocks",
    "pdserve_kv_blocks_free": "blocks_free",
    "pdserve_kv_transfer_seconds_count": "transfers",
    "pdserve_kv_transfers_failed": "transfers_failed",
    "pdserve_kv_checksum_failures": "checksum_failures",
    "pdserve_requests": "requests",
    "pdserve_recomputed": "recomputed",
    "pdserve_prefill_queue_seconds_sum": "queue_s",
    "pdserve_prefill_seconds_sum": "compute_s",
    "pdserve_prefill_seconds_count": "prompts",
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_requests_waiting_by_reason": "deferred",
    "vllm:kv_cache_usage_perc": "kv_usage",
    "vllm:gpu_cache_usage_perc": "kv_usage",
    "vllm:num_preemptions": "preemptions",
    "vllm:request_success": "requests",
    "vllm:external_prefix_cache_hits": "fetched",
    "vllm:nixl_xfer_time_seconds_count": "transfers",
    "vllm:nixl_num_failed_transfers": "transfers_failed",
    "vllm:nixl_num_kv_expired_reqs": "kv_expired",
    "vllm:request_queue_time_seconds_sum": "queue_s",
    "vllm:request_prefill_time_seconds_sum": "compute_s",
    "vllm:request_prefill_time_seconds_count": "prompts",
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:token_usage": "kv_usage",
    "sglang:num_requests": "requests",
    "sglang:num_transfer_failed_reqs": "transfers_failed",
}
_MARK = re.compile(r"^(?:pdserve_|vllm:|sglang:)\w", re.MULTILINE)
_SAMPLE = re.compile(
    r"(?P<name>(?:pdserve_|vllm:|sglang:)\w{1,80})"
    r"(?:\{(?P<labels>(?:\w{1,60}=\"(?:[^\"\\]|\\.){0,300}+\",? ?){0,30}+)\})?"
    r" +(?P<value>[-+.\w]{1,40})(?: +-?\d{1,20})?\s*"
)
_LABEL = re.compile(r"(\w{1,60})=\"((?:[^\"\\]|\\.){0,300})\"")
_URL = re.compile(
    r"(?:https?://(?:[^/@\s]{0,200}@)?(?P<named>[\w.\[\]:-]{1,260})|(?<![\w.-])(?P<bare>[\w.\[\]-]{1,260}:\d{1,5}))/metrics\b"
)
_ASKED_HERE = ("curl", "wget")
# Engines within one server, and ranks that count the same request each.
_ENGINE, _RANKS = ("engine", "dp_rank"), ("tp_rank", "pp_rank", "moe_ep_rank")
_MOST_ENGINES, _LARGEST = 256, 1e18
_ROLES = (("recomputed", "router"), ("blocks", "decode"), ("queue_s", "prefill"))


def parse(block: Block) -> list[Fact] | Unknown:
    # By engine, then by rank and field.
    found: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    lines: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for key, rank, field, value, line in _samples(block):
        if key not in found and len(found) >= _MOST_ENGINES:
            break
        found[key][rank, field] += value
        lines[key].setdefault(field, line)
    if not found:
        first = (block.output.strip().splitlines() or ["nothing"])[0]
        return Unknown(f"no metric of an engine that is known in what /metrics answered: {first[:120]}")
    where = _where(block.command)
    facts: list[Fact] = []
    for (program, number), counted in found.items():
        values: dict[str, float] = {}
        for (_, field), value in counted.items():
            values[field] = max(value, values.get(field, 0.0))
        if "kv_usage" not in values and values.get("blocks", 0) > 0 and "blocks_free" in values:
            values["kv_usage"] = 1 - values["blocks_free"] / values["blocks"]
        role = next((role for field, role in _ROLES if field in values), "") if program == "pdserve" else ""
        unit = role or (f"engine {number}" if number else "")
        said = lines[program, number]
        quote = block.quote("\n".join(said.values()))
        facts.append(EngineMetrics(quote=quote, program=program, where=where, unit=unit, values=values, lines=said))
    return facts


def _where(command: str) -> str:
    """host:port where it was asked from here; else the command, for in two containers one address is two engines."""
    url = _URL.search(command)
    if url and command.split(maxsplit=1)[0] in _ASKED_HERE:
        return url["named"] or url["bare"] or ""
    return command[:120]


def _samples(block: Block) -> Iterator[tuple[tuple[str, str], str, str, float, str]]:
    """Program and engine, rank, field, value and line of each sample that is wanted."""
    for line in lines_with(block, _MARK):
        sample = _SAMPLE.fullmatch(line)
        field = _FIELDS.get(sample["name"].removesuffix("_total")) if sample else None
        if sample is None or field is None:
            continue
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        labels = dict(_LABEL.findall(sample["labels"] or ""))
        # A gauge without a value yet is NaN.
        if not 0 <= value <= _LARGEST or (field == "deferred" and labels.get("reason") != "deferred"):
            continue
        number = next((labels[name] for name in _ENGINE if name in labels), "")
        rank = ",".join(labels.get(name, "") for name in _RANKS)
        yield (re.split("[:_]", sample["name"])[0], number), rank, field, value, line.strip()


def _claims(block: Block) -> bool:
    # Logs and dashboards name metrics too; only /metrics has such a line of type.
    if mentions(block, "# TYPE pdserve_", "# TYPE vllm:", "# TYPE sglang:"):
        return True
    return _URL.search(block.command) is not None


READER = Reader("/metrics", _claims, parse)
