"""KV that arrived in another shape, dtype or order than the receiver holds: decode hangs or fails at its first token."""

import re
from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.log import ShapeRefused
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for refused in node.all(ShapeRefused):
        layer = f"layer {refused.layer} " if refused.layer else ""
        got = f", got {refused.got}" if refused.got else ""
        yield Verdict(
            Status.FAIL,
            f"{layer}KV",
            f"{layer}KV: expected {refused.expected}{got}",
            _cause(refused),
            (refused.quote,),
            ("pdctl doctor --pair PREFILL DECODE", "journalctl -u 'pdctl-*' | grep -i 'expected'"),
            Remedy(
                "Bring both sides to one KV layout [tokens, kv_heads, head_dim], one dtype, block size and "
                "tensor-parallel "
                "size; change the side that sends.",
                impact=Impact.RESTART_ENGINE,
            ),
        )


def _cause(refused: ShapeRefused) -> str:
    expected, got = _numbers(refused.expected), _numbers(refused.got)
    if refused.cause:
        return refused.cause
    if not refused.expected.startswith(("[", "(")) and not expected[1:]:
        return "The two sides hold KV in different types: its bytes mean other numbers to the receiver."
    if got and sorted(expected) == sorted(got) and expected != got:
        return "The same numbers in another order: axes are exchanged, head-major against token-major for example."
    if got and len(got) == len(expected) + 1 and sorted(got) == sorted([*expected, 1]):
        return "One dimension of 1 too many: a batch dimension that KV on the wire does not have."
    if len(expected) == len(got) and sum(a != b for a, b in zip(expected, got, strict=True)) == 1:
        return "One dimension differs: attention heads for KV heads, another rank's share, a whole block, or a token."
    return "Sender and receiver hold KV in different layouts, or of different models."


def _numbers(shape: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d{1,12}", shape)]


CHECK = NodeCheck(
    id="PD-KV-002",
    topic="kv.shape",
    title="KV of the wrong shape",
    severity=Severity.CRITICAL,
    tools=("journalctl", "tail"),
    sources=(
        "pdwire, the shape validators",
        "https://github.com/vllm-project/vllm/pull/29503",
        "https://github.com/kvcache-ai/Mooncake/issues/261",
    ),
    need=Need.ENGINE,
    silence_passes=True,
    judge=judge,
)
