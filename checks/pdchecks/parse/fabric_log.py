"""Failures in the logs of programs that use verbs: NCCL, UCX, Mooncake, NIXL, rocSHMEM, librdmacm. Lines of interest by
their words, whatever the prefix: queue pairs that did not come up, failed completions, refused objects."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.log import ObjectRefused, QpFailure, WorkCompletion
from pdchecks.parse.reader import Reader, mentions
from pdchecks.unknown import Unknown

# Words that libibverbs and the libraries print for errno; asm-generic/errno.h.
ERRNO = {
    "no such device": 19,
    "invalid argument": 22,
    "bad address": 14,
    "cannot allocate memory": 12,
    "connection timed out": 110,
    "connection refused": 111,
    "no route to host": 113,
    "network is unreachable": 101,
    "protocol not supported": 93,
    "operation not supported": 95,
}
_QP = re.compile(
    r"(?:ibv_modify_qp|modify_qp|[Mm]odify QP)\b.{0,80}?(?:failed|to (?:INIT|RTR|RTS))|[Ff]ailed to modify QP"
)
_ERRNO = re.compile(
    r"\[(?P<bracket>\d{1,3})\]\s{0,4}$|(?:with|errno|error|failed:?)[ :(=]{1,3}(?:error )?-?(?P<number>\d{1,3})\b"
)
_DEVICE = re.compile(r"\bon dev (?P<device>[\w.-]{1,40})(?::\d{1,3})?")
_STATES = re.compile(r"curr state (?P<now>\w+), next state (?P<next>\w+)|to (?P<to>INIT|RTR|RTS)\b")
_LOCAL = re.compile(r"local GID (?P<gid>[0-9a-fA-F:.]{3,45})")
_REMOTE = re.compile(r"remote GID (?P<gid>[0-9a-fA-F:.]{3,45})")
_CM = re.compile(
    r"(?P<event>RDMA_CM_EVENT_(?:ADDR_ERROR|ROUTE_ERROR|UNREACHABLE|REJECTED|CONNECT_ERROR))"
    r"(?:.{0,40}?-(?P<errno>\d{1,3}))?"
)
_VENDOR = r"(?:.{0,120}?vendor[ _]err(?:or)?[ =:](?P<vendor>\d{1,5}))?"
# NCCL before and since 2.24 (src/transport/net_ib.cc), then what names the status as libibverbs does.
_COMPLETIONS = (
    re.compile(r"[Gg]ot completion (?:from peer .{0,80} )?with (?:error|status[= ])\s?(?P<status>\d{1,3})\b" + _VENDOR),
    re.compile(r"\bstatus=IBV_WC_\w+\((?P<status>\d{1,2})\)" + _VENDOR),
    re.compile(
        r"(?:poll_cq|[Ww]ork completion|\bwc)\b.{0,60}?(?:status|error)[ :=]{1,3}\(?(?P<status>\d{1,2})\b(?P<vendor>)"
    ),
)
# What UCX prints of a failed work request (src/uct/ib/mlx5/ib_mlx5_log.c): the hardware's syndrome.
_SYNDROME = re.compile(
    r"(?:\bon (?P<device>[\w.-]{1,40}):\d{1,3}/\w{2,10} )?\(synd 0x(?P<synd>[0-9a-f]{1,2}) vend 0x(?P<vendor>[0-9a-f]{1,3})"
)
_SYNDROMES = {0x01: 1, 0x02: 2, 0x04: 4, 0x06: 6, 0x10: 7, 0x11: 8, 0x12: 9, 0x13: 10, 0x14: 11, 0x15: 12, 0x16: 13}
# The words of ibv_wc_status_str(), and how programs shorten them; rdma-core libibverbs/verbs.h, enum ibv_wc_status.
WC_STATUS = {
    "local length error": 1,
    "local protection error": 4,
    "local access violation": 8,
    "remote invalid request": 9,
    "remote access error": 10,
    "transport retry counter exceeded": 12,
    "transport retry count exceeded": 12,
    "rnr retry counter exceeded": 13,
}
_WORDS = re.compile("|".join(WC_STATUS), re.IGNORECASE)
# 0 is success; 5 is a request that was flushed after another one had failed.
_NO_FAILURES = (0, 5)
_LOCAL_DEVICE = re.compile(r"\b(?:hca|local_nic:|on dev|device) (?P<device>[a-z][\w.-]{2,40})")
_REGISTER = re.compile(
    r"[Ff]ailed to register memory\b.{0,120}?(?P<words>Bad address|Cannot allocate memory|Invalid argument)"
)
_REFUSED = re.compile(
    r"(?P<call>ibv_(?:create_cq|reg_mr|create_qp|create_srq|open_device|alloc_pd|reg_dmabuf_mr)\w*)\(?.{0,200}?\)?"
    r"[^.]{0,60}failed:? (?:with error )?(?P<words>[A-Z][a-z ]{4,40})"
)
_SHAPE = re.compile(
    r"NCCL WARN|\(synd 0x|poll_cq|RDMA_CM_EVENT_|register memory|modify_qp|[Mm]odify QP|ibv_\w{3,30}\(|"
    r"[Gg]ot completion|IBV_WC_|retry count(?:er)? exceeded|remote (?:invalid request|access error)|"
    r"local (?:length error|protection error|access violation)"
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        text = line[:2000]
        facts += _qp(block, text) or _completion(block, text) or _refused(block, text)
    return facts


def _qp(block: Block, line: str) -> list[Fact]:
    if event := _CM.search(line):
        errno = int(event["errno"]) if event["errno"] else None
        return [_failure(block, line, errno, event["event"], "")]
    failed = _QP.search(line)
    if failed is None or "fail" not in line.lower():
        return []
    rest = line[failed.start() :]
    number = _ERRNO.search(rest)
    low = rest.lower()
    words = next((words for words in ERRNO if words in low), "")
    errno = int(number["number"] or number["bracket"]) if number else ERRNO.get(words)
    return [_failure(block, line, errno, words, rest)]


def _failure(block: Block, line: str, errno: int | None, words: str, rest: str) -> QpFailure:
    device, states, local, remote = (pattern.search(rest) for pattern in (_DEVICE, _STATES, _LOCAL, _REMOTE))
    transition = (
        "" if states is None else f"to {states['to']}" if states["to"] else f"{states['now']} to {states['next']}"
    )
    return QpFailure(
        quote=block.quote(line.strip()),
        errno=Unknown("the line names no errno") if errno is None else errno,
        words=words,
        device=device["device"] if device else Unknown("the line names no device"),
        transition=transition or Unknown("the line names no state"),
        local_gid=local["gid"] if local else Unknown("the line names no local GID"),
        remote_gid=remote["gid"] if remote else Unknown("the line names no remote GID"),
    )


def _completion(block: Block, line: str) -> list[Fact]:
    unnamed = Unknown("the line names no vendor error")
    if syndrome := _SYNDROME.search(line):
        status = _SYNDROMES.get(int(syndrome["synd"], 16))
        return [] if status is None else [_work(block, line, status, int(syndrome["vendor"], 16), syndrome["device"])]
    for pattern in _COMPLETIONS:
        if match := pattern.search(line):
            status, vendor = int(match["status"]), int(match["vendor"]) if match["vendor"] else unnamed
            return [] if status in _NO_FAILURES else [_work(block, line, status, vendor)]
    named = _WORDS.search(line)
    # The kernel's own per-QP lines belong to the kernel log's reader.
    if named is None or " QP " in line or "WC error:" in line:
        return []
    return [_work(block, line, WC_STATUS[named[0].lower()], unnamed)]


def _work(block: Block, line: str, status: int, vendor: int | Unknown, device: str | None = None) -> WorkCompletion:
    named = _LOCAL_DEVICE.search(line)
    found = device or (named["device"] if named else None)
    return WorkCompletion(
        quote=block.quote(line.strip()),
        status=status,
        vendor=vendor,
        device=found or Unknown("the line names no device"),
    )


def _refused(block: Block, line: str) -> list[Fact]:
    if memory := _REGISTER.search(line):
        return [ObjectRefused(quote=block.quote(line.strip()), call="ibv_reg_mr", words=memory["words"])]
    if match := _REFUSED.search(line):
        return [ObjectRefused(quote=block.quote(line.strip()), call=match["call"], words=match["words"].strip())]
    return []


# A log's first failure may stand far behind its beginning.
# Each alternative of the shape has one of these.
_NEEDED = (
    "NCCL WARN",
    "synd 0x",
    "poll_cq",
    "RDMA_CM_EVENT_",
    "register memory",
    "odify",
    "ibv_",
    "ot completion",
    "IBV_WC_",
    "retry count",
    "remote ",
    "local ",
)
READER = Reader(
    "fabric log",
    lambda block: mentions(block, *_NEEDED) and _SHAPE.search(block.output) is not None,
    parse,
    events=True,
)
