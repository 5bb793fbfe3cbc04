"""Logs of programs that use verbs: NCCL, UCX, Mooncake, NIXL, rocSHMEM. Lines of interest by their words, whatever the
prefix: queue pairs that did not come up, failed completions, refused objects, the devices chosen."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.log import DevicesInUse, GpuDirect, ObjectRefused, QpFailure, WorkCompletion
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

# Words that libibverbs and the libraries print for errno; asm-generic/errno.h.
ERRNO = {
    "no such device": 19,
    "invalid argument": 22,
    "bad address": 14,
    "cannot allocate memory": 12,
    "connection timed out": 110,
    "no route to host": 113,
    "network is unreachable": 101,
    "protocol not supported": 93,
    "operation not supported": 95,
}
_QP = re.compile(
    r"(?:ibv_modify_qp|modify_qp|[Mm]odify QP)\b.{0,80}?(?:failed|[Ff]ailed to modify QP|to (?:INIT|RTR|RTS))(?P<rest>.*)"
)
_QP_FAILED = re.compile(r"[Ff]ailed to modify QP(?P<rest>.*)|ibv_modify_qp failed(?P<more>.*)")
_ERRNO = re.compile(r"(?:with|errno|error|failed:?)[ :(]{1,3}(?:error )?(?P<number>\d{1,3})\b")
_DEVICE = re.compile(r"\bon dev (?P<device>[\w.-]{1,40})(?::\d{1,3})?")
_STATES = re.compile(r"curr state (?P<now>\w+), next state (?P<next>\w+)|to (?P<to>INIT|RTR|RTS)\b")
_LOCAL = re.compile(r"local GID (?P<gid>[0-9a-fA-F:.]{3,45})")
_REMOTE = re.compile(r"remote GID (?P<gid>[0-9a-fA-F:.]{3,45})")
_COMPLETION = re.compile(
    r"[Gg]ot completion (?:from peer .{0,80} )?with (?:error|status[= ])\s?(?P<status>\d{1,3})\b(?:.{0,120}?vendor[ _]err(?:or)?[ =:](?P<vendor>\d{1,5}))?"
)
_STATUS = re.compile(
    r"\bstatus=(?P<name>IBV_WC_\w+)\((?P<status>\d{1,2})\)(?:.{0,120}?vendor[ _]err(?:or)?[ =:](?P<vendor>\d{1,5}))?"
)
_WORDS = re.compile(
    r"(?P<words>transport retry counter exceeded|RNR retry counter exceeded|remote access error|remote invalid request(?: error)?|local length error|local protection error|local access violation)",
    re.IGNORECASE,
)
# rdma-core libibverbs/verbs.h, enum ibv_wc_status, in the words of ibv_wc_status_str().
WC_STATUS = {
    "local length error": 1,
    "local protection error": 4,
    "local access violation": 8,
    "remote invalid request": 9,
    "remote access error": 10,
    "transport retry counter exceeded": 12,
    "rnr retry counter exceeded": 13,
}
_USING = re.compile(r"NET/IB : Using (?P<list>(?:\[\d{1,3}\]\S{1,60} ?){1,64})(?:.*?OOB (?P<oob>\S{1,80}))?")
_USED = re.compile(r"\[\d{1,3}\](?P<device>[^:\s]{1,40}):\d{1,3}(?:/(?P<layer>\w{1,16}))?")
_GDR = re.compile(r"GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA \d{1,3} '(?P<device>[^':]{1,40})")
_REFUSED = re.compile(
    r"(?P<call>ibv_(?:create_cq|reg_mr|create_qp|create_srq|open_device|alloc_pd|reg_dmabuf_mr)\w*)\(?.{0,200}?\)?[^.]{0,60}failed:? (?:with error )?(?P<words>[A-Z][a-z ]{4,40})"
)
_SHAPE = re.compile(
    r"NCCL (?:WARN|INFO)|modify_qp|[Mm]odify QP|ibv_\w+\(|[Gg]ot completion|IBV_WC_|retry counter exceeded|transfer_engine|remote invalid request|local length error"
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        text = line[:2000]
        facts += _qp(block, text) or _completion(block, text) or _refused(block, text) or _choice(block, text)
    return facts


def _qp(block: Block, line: str) -> list[Fact]:
    failed = _QP.search(line) or _QP_FAILED.search(line)
    if failed is None or "fail" not in line.lower():
        return []
    rest = line[failed.start() :]
    number = _ERRNO.search(rest)
    low = rest.lower()
    words = next((words for words in ERRNO if words in low), "")
    errno = int(number["number"]) if number else ERRNO.get(words)
    device, states = _DEVICE.search(rest), _STATES.search(rest)
    local, remote = _LOCAL.search(rest), _REMOTE.search(rest)
    return [
        QpFailure(
            quote=block.quote(line.strip()),
            errno=errno if errno is not None else Unknown("the line names no errno"),
            words=words,
            device=device["device"] if device else Unknown("the line names no device"),
            transition=(f"to {states['to']}" if states["to"] else f"{states['now']} to {states['next']}")
            if states
            else Unknown("the line names no state"),
            local_gid=local["gid"] if local else Unknown("the line names no local GID"),
            remote_gid=remote["gid"] if remote else Unknown("the line names no remote GID"),
        )
    ]


def _completion(block: Block, line: str) -> list[Fact]:
    match = _COMPLETION.search(line) or _STATUS.search(line)
    if match:
        vendor = match["vendor"]
        return [
            WorkCompletion(
                quote=block.quote(line.strip()),
                status=int(match["status"]),
                vendor=int(vendor) if vendor else Unknown("the line names no vendor error"),
            )
        ]
    named = _WORDS.search(line)
    # The kernel's own per-QP lines belong to the kernel log's reader.
    if named is None or " QP " in line:
        return []
    status = WC_STATUS[
        named["words"].lower().removesuffix(" error")
        if named["words"].lower().startswith("remote invalid")
        else named["words"].lower()
    ]
    return [
        WorkCompletion(quote=block.quote(line.strip()), status=status, vendor=Unknown("the line names no vendor error"))
    ]


def _refused(block: Block, line: str) -> list[Fact]:
    match = _REFUSED.search(line)
    return (
        [ObjectRefused(quote=block.quote(line.strip()), call=match["call"], words=match["words"].strip())]
        if match
        else []
    )


def _choice(block: Block, line: str) -> list[Fact]:
    facts: list[Fact] = []
    if using := _USING.search(line):
        used = list(_USED.finditer(using["list"]))
        layer = next((match["layer"] for match in used if match["layer"]), "")
        devices = tuple(match["device"] for match in used)
        facts.append(
            DevicesInUse(quote=block.quote(line.strip()), devices=devices, layer=layer, bootstrap=using["oob"] or "")
        )
    if gdr := _GDR.search(line):
        facts.append(
            GpuDirect(quote=block.quote(line.strip()), device=gdr["device"], enabled=gdr["state"] == "Enabled")
        )
    return facts


READER = Reader("fabric log", lambda block: looks_like(block, _SHAPE), parse)
