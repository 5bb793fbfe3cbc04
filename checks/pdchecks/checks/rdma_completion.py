"""Work requests and queue pairs that ended in an error."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.counters import rdma_readings
from pdchecks.evidence import Quote
from pdchecks.facts.log import KernelEvent, WorkCompletion
from pdchecks.facts.perftest import PerftestRun
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

# ibv_wc_status -> name, words of ibv_wc_status_str(), cause; rdma-core libibverbs/verbs.h.
_LENGTH = (
    "A packet or message was longer than the receiver allows: the two ends use different path MTUs, or the posted "
    "buffer is too small."
)
_ACCESS = (
    "The memory key or the address is not (or no longer) registered on that side, or not for this access: often a "
    "peer that restarted, a stale key, or an error on its side that came first."
)
_STATUS: dict[int, tuple[str, str, str]] = {
    1: ("IBV_WC_LOC_LEN_ERR", "local length error", _LENGTH),
    2: (
        "IBV_WC_LOC_QP_OP_ERR",
        "local QP operation error",
        "The work request itself is malformed for this queue pair.",
    ),
    4: (
        "IBV_WC_LOC_PROT_ERR",
        "local protection error",
        "The local buffer is not covered by its memory key. With GPU memory: the NIC cannot read or write the GPU "
        "(peer memory or DMA-BUF missing, BAR or ACS in the way).",
    ),
    6: ("IBV_WC_MW_BIND_ERR", "memory window bind error", _ACCESS),
    7: ("IBV_WC_BAD_RESP_ERR", "bad response error", "The peer answered with a packet that does not fit the request."),
    8: ("IBV_WC_LOC_ACCESS_ERR", "local access error", _ACCESS),
    9: ("IBV_WC_REM_INV_REQ_ERR", "remote invalid request error", f"The peer refuses the request. {_LENGTH}"),
    10: ("IBV_WC_REM_ACCESS_ERR", "remote access error", _ACCESS),
    11: ("IBV_WC_REM_OP_ERR", "remote operation error", "The peer could not complete it: look at its own log first."),
    12: (
        "IBV_WC_RETRY_EXC_ERR",
        "transport retry counter exceeded",
        "Packets or their answers never arrive although the connection was set up: a wrong GID index (v1 against v2, "
        "or an unroutable one), a firewall or ACL that drops UDP port 4791, an MTU that the path does not carry, a "
        "lossy path, or a peer that is gone.",
    ),
    13: (
        "IBV_WC_RNR_RETRY_EXC_ERR",
        "RNR retry counter exceeded",
        "The receiver had no buffer posted in time, again and again.",
    ),
}
_BY_WORDS = {words: status for status, (_, words, _) in _STATUS.items()} | {
    "local access violation work queue error": 8,
    "invalid request local work queue error": 2,
    "local catastrophic work queue error": 2,
}
_COUNTERS = (
    "resp_local_length_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "resp_remote_access_errors",
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    found: dict[tuple[str, int], list[Quote]] = {}
    for work in node.all(WorkCompletion):
        found.setdefault((known(work.device) or "work completion", work.status), []).append(work.quote)
    for run in node.all(PerftestRun):
        # A failed run on GPU memory is PD-GDR-002's.
        if run.status and not run.cuda:
            found.setdefault((run.device, run.status), []).append(run.quote)
    for (subject, status), quotes in found.items():
        yield _failed(subject, status, quotes)
    yield from _from_kernel(node)
    for reading in rdma_readings(node):
        reading = reading.moved(_COUNTERS)
        counted = {name: reading.recent[name] for name in _COUNTERS if reading.recent.get(name)}
        if counted and not any(subject == reading.name.partition("/")[0] for subject, _ in found):
            listed = ", ".join(f"{name} {count}" for name, count in counted.items())
            cause = (
                _LENGTH if "resp_local_length_error" in counted or "req_remote_invalid_request" in counted else _ACCESS
            )
            summary = f"requests ended in an error {reading.since}: {listed}"
            verify = (f"rdma statistic show link {reading.name}", "dmesg -T | grep 'QP .* error'")
            remedy = _remedy(1 if cause is _LENGTH else 10)
            heard = reading.at_most(Status.FAIL, policy.values.counters.young_s)
            yield Verdict(heard, reading.name, summary, cause, (reading.quote(counted),), verify, remedy)


def _failed(subject: str, status: int, quotes: list[Quote]) -> Verdict:
    unnamed = (f"ibv_wc_status {status}", "see rdma-core libibverbs/verbs.h", "The log of the peer may say more.")
    name, words, cause = _STATUS.get(status, unnamed)
    times = f"{len(quotes)} times" if len(quotes) > 1 else "once"
    return Verdict(
        Status.FAIL,
        subject,
        f"completion error {status} ({name}, {words}), {times}",
        cause,
        tuple(quotes),
        _VERIFY,
        _remedy(status),
    )


_VERIFY = ("show_gids", "ibv_devinfo | grep active_mtu", "dmesg -T | grep 'QP .* error'")


def _remedy(status: int) -> Remedy:
    if status == 12:
        return Remedy(
            "Use one RoCE v2 GID with a routable address on both sides, let UDP 4791 pass every firewall and ACL on "
            "the way, make MTU and lossless class equal along the path; then try the path alone.",
            commands=("ib_write_bw -d <device> -x <gid index> <peer>", "nft list ruleset | grep 4791"),
        )
    if status in (1, 9):
        return Remedy("Make the active MTU of both ends equal; compare them with ibv_devinfo on both nodes.")
    if status == 4:
        return Remedy(
            "Run the same test on host memory: if that passes, the way between NIC and GPU is at fault (gdr.*)."
        )
    return Remedy("Look at the first error on either side: later ones are its consequence.")


def _from_kernel(node: NodeFacts) -> Iterator[Verdict]:
    events: dict[tuple[str, str], list[Quote]] = {}
    for event in node.all(KernelEvent):
        if event.kind in ("qp-error", "cqe-error"):
            words = event.detail.partition("Message: ")[2] or event.detail
            events.setdefault((event.device, words.strip()), []).append(event.quote)
    for (device, words), quotes in events.items():
        status = _BY_WORDS.get(words, 0)
        count = f"{len(quotes)} queue pairs" if len(quotes) > 1 else "a queue pair"
        yield Verdict(
            Status.FAIL,
            device,
            f"{count} of {device} went into the error state: {words}",
            _STATUS[status][2] if status else "The application sees its connection break and reconnects.",
            tuple(quotes),
            _VERIFY,
            _remedy(status),
        )


CHECK = NodeCheck(
    id="PD-RDMA-002",
    topic="rdma.completion",
    title="Work request ended in an error",
    severity=Severity.CRITICAL,
    tools=("dmesg", "journalctl"),
    sources=(
        "rdma-core libibverbs/verbs.h, enum ibv_wc_status",
        "https://github.com/NVIDIA/nccl/issues/426",
        "https://github.com/kvcache-ai/Mooncake/issues/3299",
    ),
    silence_passes=True,
    judge=judge,
)
