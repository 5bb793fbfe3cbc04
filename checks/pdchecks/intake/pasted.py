"""Text that a person pasted: a terminal with its prompts, outputs one below the other, a log.

A line that a prompt begins names its command, and the node where the prompt does. Without prompts each tool's output is
known by its shape (`shapes.py`). What no reader takes is listed with its place, never dropped."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from pdchecks.evidence import LONGEST_LINE, Block
from pdchecks.intake.shapes import ANY_HEAD, LOG, LOG_COMMAND, SHAPES, SHORTEST_HEAD, Shape, of_json

MAX_JSON = 4 << 20
# A terminal with more commands than this is not read further: what follows is listed as one leftover.
MAX_PIECES = 5_000
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,16}[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][A-Z0-9])")
_ENVIRONMENT = r"(?:\([\w.-]{1,40}\) ?)?"
_PROMPTS = (
    # [root@node1 ~]# ibstat
    re.compile(rf"{_ENVIRONMENT}\[[\w.-]{{1,64}}@(?P<host>[\w.-]{{1,64}})[^\]]{{0,200}}\] ?[#$%] ?(?P<command>.*)"),
    # user@node1:~/src$ ibstat
    re.compile(
        rf"{_ENVIRONMENT}[\w.-]{{1,64}}@(?P<host>[\w.-]{{1,64}})(?::[^#$%>]{{0,200}})? ?[#$%>] ?(?P<command>.*)"
    ),
)
# $ ibstat, # ibstat, + ibstat, node1# ibstat, ~ # ibstat: only before a command that tools of ours have, or `$` before any.
_BARE = re.compile(
    r"(?P<mark>[$#%+]|bash-[\d.]{1,8}[#$]|[\w.-]{1,64}[#>]|[~/][\w./-]{0,200} ?[#$]) (?P<command>\S.{0,2000})"
)
_EMPTY = re.compile(r"(?:[$#%]|bash-[\d.]{1,8}[#$]|[\w.-]{1,64}#|[~/][\w./-]{0,200} ?[#$]) ?|\+ ")
_WORD = re.compile(
    r"(?:(?:sudo|time|env|timeout \S{1,10}|LC_ALL=\S{1,40}|LANG=\S{1,40})\s+(?:-\w\s+)?)*(?P<tool>\S{1,200})"
)
_TOOLS = frozenset(
    """
    ansible-playbook cat cd chronyc cma_roce_mode cma_roce_tos dcb devlink dmesg dnf docker echo
    egrep env ethtool flint for free getent grep head ib_read_bw ib_send_bw ib_write_bw ib_write_lat
    arp ibdev2netdev ibstat ibstatus ibv_devices ibv_devinfo ifconfig ip journalctl kubectl lldpcli lldpctl lldptool
    locale ls lsmod lspci lsof mlnx_qos mlxconfig mlxlink modinfo modprobe mst mstconfig mstflint
    numactl nvidia-smi ofed_info perfquery ping printenv ps python python3 rdma rping show_gids ss sysctl
    systemctl tail tc timedatectl top tracepath ucx_info ulimit uname vllm yum
    """.split()  # noqa: SIM905
)
_JSON = re.compile(r"\s*(?:\[\s*\{?|\{)\s*|\s*(?:\[\s*\{|\{\s*\").*[\]}]\s*")
_MARKS = re.compile(r"[#$%>+] ?")
_FENCE = re.compile(r"\s*(?:```|~~~)\w{0,20}\s*")


@dataclass(frozen=True, slots=True)
class Leftover:
    """Lines that nothing recognises. line: of the first, from 1. text: the first, cut. lines: how many."""

    line: int
    text: str
    lines: int


@dataclass(slots=True)
class _Piece:
    """command: None while nobody knows what printed it."""

    begin: int
    command: str | None = None
    host: str = ""
    shape: Shape | None = None
    log: bool = False
    prompted: bool = False
    lines: list[str] = field(default_factory=list)


def read_pasted(text: str) -> tuple[list[Block], list[Leftover]]:
    """The blocks in it, and what is left. A block carries a node's name only where prompts name more than one."""
    from pdchecks.parse import READERS

    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    lines = [line[:LONGEST_LINE] for line in text.replace("\r\n", "\n").split("\n")]
    pieces = list(islice(_pieces(lines), MAX_PIECES + 1))
    hosts = {piece.host for piece in pieces if piece.host}
    blocks: list[Block] = []
    left: list[Leftover] = []
    for piece in pieces[:MAX_PIECES]:
        output = "\n".join(piece.lines).rstrip("\n")
        if not output.strip():
            continue
        node = piece.host if len(hosts) > 1 else next(iter(hosts), "")
        block = Block(piece.command or "", None, output, node)
        if any(reader.claims(block) for reader in READERS):
            blocks.append(block if block.command else Block("(pasted)", None, output, node))
        else:
            left.append(_leftover(piece))
    for piece in pieces[MAX_PIECES:]:
        text = f"all after the first {MAX_PIECES} commands and outputs"
        left.append(Leftover(piece.begin, text, len(lines) - piece.begin + 1))
    return blocks, left


def _leftover(piece: _Piece) -> Leftover:
    at = next(number for number, line in enumerate(piece.lines) if line.strip())
    shown = piece.command if piece.prompted and piece.command else piece.lines[at].strip()
    return Leftover(
        piece.begin + (0 if piece.prompted else at), shown[:200], sum(map(bool, map(str.strip, piece.lines)))
    )


def _pieces(lines: list[str]) -> Iterator[_Piece]:
    piece = _Piece(1)
    host, skip, tried = "", 0, 0
    for number, line in enumerate(lines, 1):
        if skip >= number:
            continue
        if not line or line.isspace():
            piece.lines.append(line)
            continue
        if ("~~~" in line or "```" in line) and _FENCE.fullmatch(line):
            continue
        prompt = _prompt(line) if _MARKS.search(line) else None
        if prompt is not None:
            yield piece
            host = prompt[1] or host
            piece = _Piece(number, prompt[0], host, prompted=True)
        elif piece.prompted and _EMPTY.fullmatch(line):
            yield piece
            piece = _Piece(number + 1, host=host)
        elif piece.prompted and piece.command:
            piece.lines.append(line)
        elif number > tried and line.lstrip()[:1] in ("[", "{") and _JSON.fullmatch(line):
            command, tried = _json(lines, number)
            if command:
                yield piece
                yield _Piece(number, command, host, lines=lines[number - 1 : tried])
                piece, skip = _Piece(tried + 1, host=host), tried
            else:
                piece.lines.append(line)
        else:
            fresh = _next(piece, line, number, host)
            if fresh is not piece:
                yield piece
                piece = fresh
            piece.lines.append(line)
    yield piece


def _next(piece: _Piece, line: str, number: int, host: str) -> _Piece:
    """The piece that the line belongs to: the one that is open, or a new one."""
    if piece.shape is not None and (piece.shape.head.match(line) or piece.shape.body.match(line)):
        return piece
    telling = len(line) >= SHORTEST_HEAD
    if telling and LOG.match(line):
        return piece if piece.log else _Piece(number, LOG_COMMAND, host, log=True)
    for shape in SHAPES if telling and ANY_HEAD.match(line) else ():
        if match := shape.head.match(line):
            named = {name: value for name, value in match.groupdict().items() if value}
            return _Piece(number, shape.command.format(**named), host, shape)
    if piece.log or piece.command is None:
        return piece
    return _Piece(number, None, host)


def _prompt(line: str) -> tuple[str, str] | None:
    """(command, host) where the line is a prompt; an empty command ends what was open."""
    for pattern in _PROMPTS:
        if match := pattern.fullmatch(line):
            return match["command"].strip(), match["host"]
    bare = _BARE.fullmatch(line)
    if bare is None:
        return None
    word = _WORD.match(bare["command"])
    known = word is not None and word["tool"].rsplit("/", 1)[-1] in _TOOLS
    return (bare["command"].strip(), "") if known or bare["mark"] == "$" else None


def _json(lines: list[str], number: int) -> tuple[str, int]:
    """The command that prints the JSON value that begins in that line, and the number of the line where it ends.

    Where there is none, an empty command, and the line up to which no second look is worth it.
    """
    closing = {"[": "]", "{": "}"}[lines[number - 1].strip()[0]]
    length, end = 0, number - 1
    while end < len(lines) and length < MAX_JSON:
        length += len(lines[end])
        end += 1
        if (end == number and lines[end - 1].rstrip().endswith(closing)) or lines[end - 1].rstrip() == closing:
            try:
                return of_json(json.loads("\n".join(lines[number - 1 : end]))) or "", end
            except (ValueError, RecursionError):
                break
    return "", end
