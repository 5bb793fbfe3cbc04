"""Logs of programs that use verbs: NCCL, UCX, Mooncake, NIXL, rocSHMEM. Lines of interest by their words, whatever the
prefix: queue pairs that did not come up, failed completions, refused objects, the devices chosen."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Environment
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
_ERRNO = re.compile(
    r"\[(?P<bracket>\d{1,3})\]\s*$|(?:with|errno|error|failed:?)[ :(]{1,3}(?:error )?(?P<number>\d{1,3})\b"
)
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
    r"(?P<words>transport retry count(?:er)? exceeded|RNR retry counter exceeded|remote access error|remote invalid request(?: error)?|local length error|local protection error|local access violation)",
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
    "transport retry count exceeded": 12,
    "rnr retry counter exceeded": 13,
}
_USING = re.compile(r"NET/IB : Using (?P<list>(?:\[\d{1,3}\]\S{1,60} ?){1,64})(?:.*?OOB (?P<oob>\S{1,80}))?")
_USED_SOCKET = re.compile(r"\[\d{1,3}\](?P<device>[^:\s]{1,40}):")
_USED = re.compile(r"\[\d{1,3}\](?P<device>[^:\s]{1,40}):\d{1,3}(?:/(?P<layer>\w{1,16}))?")
_GDR = re.compile(
    r"GPU Direct RDMA (?:\(\w+\) )?(?P<state>Enabled|Disabled) for "
    r"(?:HCA \d{1,3} '(?P<device>[^':]{1,40})|GPU \S{1,20} / HCA (?P<hca>\d{1,3})(?P<why> \(distance [^)]{1,20}\))?)"
)
_SOCKET = re.compile(
    r"NET/Socket ?: Using (?P<list>(?:\[\d{1,3}\]\S{1,60} ?){1,64})|Using network (?P<network>Socket)\b"
)
_NONE = re.compile(r"NET/IB ?: No device found")
_SET = re.compile(r"\b(?P<name>(?:NCCL|UCX|MC|NVSHMEM)_[A-Z0-9_]{2,40}) set by environment to (?P<value>[^\s.]{1,60})")
# What UCX prints of a failed work request (src/uct/ib/mlx5/ib_mlx5_log.c): the hardware syndrome is ours to translate.
_SYNDROME = re.compile(
    r"\bon (?P<device>[\w.-]{1,40}):\d{1,3}/\w{2,10} \(synd 0x(?P<synd>[0-9a-f]{1,2}) vend 0x(?P<vendor>[0-9a-f]{1,3})"
)
_SYNDROMES = {0x01: 1, 0x02: 2, 0x04: 4, 0x06: 6, 0x10: 7, 0x11: 8, 0x12: 9, 0x13: 10, 0x14: 11, 0x15: 12, 0x16: 13}
_POLL = re.compile(r"(?:poll_cq|[Ww]ork completion|\bwc)\b.{0,60}?(?:status|error)[ :=]{1,3}\(?(?P<status>\d{1,2})\b")
_LOCAL_DEVICE = re.compile(r"\b(?:hca|local_nic:|on dev|device) (?P<device>[a-z][\w.-]{2,40})")
_CM = re.compile(
    r"(?P<event>RDMA_CM_EVENT_(?:ADDR_ERROR|ROUTE_ERROR|UNREACHABLE|REJECTED|CONNECT_ERROR))(?:.{0,40}?-(?P<errno>\d{1,3}))?"
)
_REGISTER = re.compile(
    r"[Ff]ailed to register memory\b.{0,120}?(?P<words>Bad address|Cannot allocate memory|Invalid argument)"
)
_REFUSED = re.compile(
    r"(?P<call>ibv_(?:create_cq|reg_mr|create_qp|create_srq|open_device|alloc_pd|reg_dmabuf_mr)\w*)\(?.{0,200}?\)?[^.]{0,60}failed:? (?:with error )?(?P<words>[A-Z][a-z ]{4,40})"
)
_SHAPE = re.compile(
    r"NCCL (?:WARN|INFO)|\(synd 0x|UCX +(?:ERROR|WARN|DIAG)|poll_cq|RDMA_CM_EVENT_|register memory|modify_qp|[Mm]odify QP|ibv_\w+\(|[Gg]ot completion|IBV_WC_|retry counter exceeded|transfer_engine|remote invalid request|local length error"
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for line in block.lines:
        text = line[:2000]
        facts += _qp(block, text) or _completion(block, text) or _refused(block, text) or _choice(block, text)
    return facts


def _qp(block: Block, line: str) -> list[Fact]:
    if event := _CM.search(line):
        return [_cm_failure(block, line, event)]
    failed = _QP.search(line) or _QP_FAILED.search(line)
    if failed is None or "fail" not in line.lower():
        return []
    rest = line[failed.start() :]
    number = _ERRNO.search(rest)
    low = rest.lower()
    words = next((words for words in ERRNO if words in low), "")
    errno = int(number["number"] or number["bracket"]) if number else ERRNO.get(words)
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


def _cm_failure(block: Block, line: str, event: re.Match[str]) -> QpFailure:
    why = Unknown("the line does not name it")
    return QpFailure(
        quote=block.quote(line.strip()),
        errno=int(event["errno"]) if event["errno"] else Unknown("the line names no errno"),
        words=event["event"],
        device=why,
        transition=why,
        local_gid=why,
        remote_gid=why,
    )


def _completion(block: Block, line: str) -> list[Fact]:
    if syndrome := _SYNDROME.search(line):
        status = _SYNDROMES.get(int(syndrome["synd"], 16))
        vendor: int | Unknown = int(syndrome["vendor"], 16)
        return [] if status is None else [_work(block, line, status, vendor, syndrome["device"])]
    if match := _COMPLETION.search(line) or _STATUS.search(line):
        vendor = int(match["vendor"]) if match["vendor"] else Unknown("the line names no vendor error")
        # 0 is success; 5 is a request flushed after another one failed.
        return [] if int(match["status"]) in (0, 5) else [_work(block, line, int(match["status"]), vendor)]
    if (poll := _POLL.search(line)) and int(poll["status"]) not in (0, 5):
        return [_work(block, line, int(poll["status"]), Unknown("the line names no vendor error"))]
    named = _WORDS.search(line)
    # The kernel's own per-QP lines belong to the kernel log's reader.
    if named is None or " QP " in line:
        return []
    status = WC_STATUS[
        named["words"].lower().removesuffix(" error")
        if named["words"].lower().startswith("remote invalid")
        else named["words"].lower()
    ]
    return [_work(block, line, status, Unknown("the line names no vendor error"))]


def _work(block: Block, line: str, status: int, vendor: int | Unknown, device: str | None = None) -> WorkCompletion:
    named = _LOCAL_DEVICE.search(line)
    device = device or (named["device"] if named else None)
    return WorkCompletion(
        quote=block.quote(line.strip()),
        status=status,
        vendor=vendor,
        device=device or Unknown("the line names no device"),
    )


def _refused(block: Block, line: str) -> list[Fact]:
    if memory := _REGISTER.search(line):
        return [ObjectRefused(quote=block.quote(line.strip()), call="ibv_reg_mr", words=memory["words"])]
    match = _REFUSED.search(line)
    return (
        [ObjectRefused(quote=block.quote(line.strip()), call=match["call"], words=match["words"].strip())]
        if match
        else []
    )


def _choice(block: Block, line: str) -> list[Fact]:
    facts: list[Fact] = []
    if variable := _SET.search(line):
        values = {variable["name"]: variable["value"]}
        facts.append(Environment(quote=block.quote(line.strip()), values=values))
    if socket := _SOCKET.search(line):
        names = tuple(match["device"] for match in _USED_SOCKET.finditer(socket["list"] or ""))
        facts.append(DevicesInUse(quote=block.quote(line.strip()), devices=names, layer="Socket", bootstrap=""))
    if _NONE.search(line):
        facts.append(DevicesInUse(quote=block.quote(line.strip()), devices=(), layer="IB", bootstrap=""))
    if using := _USING.search(line):
        used = list(_USED.finditer(using["list"]))
        layer = next((match["layer"] for match in used if match["layer"]), "")
        devices = tuple(match["device"] for match in used)
        facts.append(
            DevicesInUse(quote=block.quote(line.strip()), devices=devices, layer=layer, bootstrap=using["oob"] or "")
        )
    if gdr := _GDR.search(line):
        facts.append(
            GpuDirect(
                quote=block.quote(line.strip()),
                device=gdr["device"] or f"HCA {gdr['hca']}",
                enabled=gdr["state"] == "Enabled",
                why=(gdr["why"] or "").strip(" ()"),
            )
        )
    return facts


READER = Reader("fabric log", lambda block: looks_like(block, _SHAPE), parse)
