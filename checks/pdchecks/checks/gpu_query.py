"""A query that nvidia-smi refused as a whole: nothing that it asked for is known."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.gpu import Gpu, GpuProcess, GpuQueryRefused
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# Fields people ask for in the wrong query, or by a name that drivers no longer or do not yet know;
# nvidia-smi --help-query-gpu, --help-query-compute-apps.
_GPU_ONLY = ("compute_mode", "persistence_mode", "index", "utilization", "memory.", "temperature", "pcie.", "power.")
_PROCESS_ONLY = ("pid", "process_name", "used_gpu_memory", "used_memory")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    refused = node.all(GpuQueryRefused)
    for query in refused:
        subject = f"query of {query.field}" if query.field else "nvidia-smi"
        if query.field:
            summary = f'nvidia-smi knows no field "{query.field}"{_where(query.what)} and answered nothing at all'
        else:
            summary = f"nvidia-smi answered nothing: {query.words}"
        yield Verdict(Status.UNKNOWN, subject, summary, _cause(query), (query.quote,), verify=_verify(query))
    answered = (*node.all(Gpu), *node.all(GpuProcess))
    if answered and not refused:
        yield Verdict(Status.PASS, "nvidia-smi", "every query was answered", quotes=(answered[0].quote,))


def _where(what: str) -> str:
    return f" in --query-{what}" if what else ""


def _cause(query: GpuQueryRefused) -> str:
    if not query.field:
        return "The driver did not answer; what it says of itself is judged as the GPU's health."
    if query.what != "gpu" and query.field.startswith(_GPU_ONLY):
        return (
            f"{query.field} belongs to --query-gpu, not to the query of processes; one unknown name fails the "
            "whole query. "
            "Ask two queries."
        )
    if query.what == "gpu" and query.field in _PROCESS_ONLY:
        return (
            f"{query.field} belongs to --query-compute-apps; one unknown name fails the whole query. Ask two queries."
        )
    if "throttle_reasons" in query.field or "event_reasons" in query.field:
        return "Drivers from about 535 renamed clocks_throttle_reasons.* to clocks_event_reasons.*; the other name may work."
    return "The set of fields depends on the driver; one unknown name fails the whole query."


def _verify(query: GpuQueryRefused) -> tuple[str, ...]:
    if not query.field:
        return ("nvidia-smi",)
    two = (
        "nvidia-smi --query-gpu=index,uuid,compute_mode --format=csv",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv",
    )
    return ("nvidia-smi --help-query-gpu", "nvidia-smi --help-query-compute-apps", *two)


CHECK = NodeCheck(
    id="PD-GPU-002",
    topic="gpu.query",
    title="nvidia-smi refused a query",
    severity=Severity.LOW,
    tools=("nvidia-smi",),
    sources=("nvidia-smi(1), --query-gpu, --query-compute-apps",),
    need=Need.GPU,
    judge=judge,
)
