"""ping -M do: whether packets of a size pass unbroken. iputils prints the MTU that stood in the way, here or on the path."""

import re

from pdchecks.active.marker import bare, peer_of
from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import PathProbe, Route
from pdchecks.parse.reader import Reader, argument, looks_like, runs
from pdchecks.unknown import Unknown

_HEAD = re.compile(r"^PING (?P<peer>\S{1,80}) .{0,120}?\b(?P<size>\d{1,5})\((?P<whole>\d{1,5})\) bytes", re.MULTILINE)
_LOCAL = re.compile(r"local error: [Mm]essage too long,? mtu[=:] ?(?P<mtu>\d{2,6})")
_PATH = re.compile(r"Frag needed and DF set \(mtu = (?P<mtu>\d{2,6})\)|Packet too big: mtu=(?P<mtu6>\d{2,6})")
_PLAIN = re.compile(r"sendmsg: Message too long")
_REFUSED = re.compile(r"^(?:ping: )?connect: (?P<why>Network is unreachable|No route to host)", re.MULTILINE)
_LOSS = re.compile(r"(?P<sent>\d{1,6}) packets transmitted, (?P<received>\d{1,6}) (?:packets )?received")


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output[:20_000]
    head, local, path, loss = (pattern.search(text) for pattern in (_HEAD, _LOCAL, _PATH, _LOSS))
    command = bare(block.command)
    asked = argument(command, "-s")
    if refused := _REFUSED.search(text):
        return [_no_route(block, refused["why"])]
    size = int(head["whole"]) if head else int(asked) + 28 if asked and asked.isdecimal() and len(asked) < 6 else None
    if size is None or not re.search(r"-M (?:do|probe)|\bdo\b", command):
        return []
    told = local["mtu"] if local else (path["mtu"] or path["mtu6"]) if path else None
    plain = _PLAIN.search(text)
    first = next((m for m in (local, path, plain, loss) if m), None)
    if first is None:
        return Unknown(f"ping printed no result: {(text.strip().splitlines() or ['nothing'])[0][:120]}")
    return [
        PathProbe(
            quote=block.quote(first[0]),
            netdev=argument(block.command, "-I") or "",
            peer=head["peer"] if head else "(peer not named)",
            size=size,
            passed=bool(loss and int(loss["received"])) and not (local or path or plain),
            here=bool(local or plain),
            mtu=int(told) if told else Unknown("ping did not name the MTU in the way"),
            to=peer_of(block.command),
        )
    ]


def _no_route(block: Block, why: str) -> Route:
    peer = next(
        (word for word in reversed(words(bare(block.command))) if re.fullmatch(r"[0-9A-Fa-f.:]{3,45}", word)), ""
    )
    asked = argument(block.command, "-I") or ""
    return Route(quote=block.quote(why), destination=peer, source="", asked=asked, via="", netdev=Unknown(why))


READER = Reader("ping", lambda block: runs(block, "ping", "ping6") or looks_like(block, _HEAD), parse)
