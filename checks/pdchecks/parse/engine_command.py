"""Command lines of engines: ExecStart as `systemctl show` prints it, and rows of ps(1). What may be a secret is left out."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.deployment import EngineCommand
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_ID = re.compile(r"Id=(?P<unit>[\w@:.\\-]{1,120})")
_UNNAMED = "(unit not named)"
# vllm serve, python -m vllm.entrypoints..., sglang.launch_server, and ours.
_ENGINE = re.compile(r"\b(?:vllm serve|vllm\.entrypoints\.\S{1,60}|sglang\.launch_server|pdserve)\b")
_FLAG = re.compile(r"--(?P<name>[a-z][a-z0-9-]{1,60})(?:[= ](?P<value>(?!--)\S{1,400}))?")
_SECRET = re.compile(r"(?:[a-z0-9-]*-)?(?:key|token|secret|password|credentials?)")


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    unit = _UNNAMED
    for line in block.lines:
        if named := _ID.fullmatch(line):
            unit = named["unit"]
        elif line.startswith("ExecStart={"):
            facts += _command(block, unit, line.partition("argv[]=")[2].partition(" ; ")[0])
        elif not line:
            unit = _UNNAMED
    if not facts and "ps" in words(block.command):
        for line in block.lines:
            if engine := _ENGINE.search(line):
                facts += _command(block, engine[0].split()[0].split(".")[0], line[engine.start() :])
    return facts


def _command(block: Block, unit: str, argv: str) -> list[Fact]:
    engine = _ENGINE.search(argv)
    if engine is None:
        return []
    rest = argv[engine.end() :]
    flags = {
        match["name"]: match["value"] or "on" for match in _FLAG.finditer(rest) if not _SECRET.fullmatch(match["name"])
    }
    first = rest.split()
    if engine[0] == "vllm serve" and first and not first[0].startswith("-"):
        flags.setdefault("model", first[0])
    shown = " ".join(f"--{name} {value}" for name, value in flags.items())
    return [EngineCommand(quote=block.quote(f"{unit}: {engine[0]} {shown}"), unit=unit, flags=flags)] if flags else []


def _claims(block: Block) -> bool:
    return "ExecStart=" in block.output or ("ps" in words(block.command) and _ENGINE.search(block.output) is not None)


READER = Reader("engine command", _claims, parse, events=True)
