"""systemctl: `show` (one paragraph of Key=Value a unit), `status`, and what it says of a unit that does not exist."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Unit, UnitAsked
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_PAIR = re.compile(r"(?P<key>[A-Z][A-Za-z]{1,40})=(?P<value>.*)")
# `status`: a bullet or a cross before the name, then indented fields.
_HEAD = re.compile(r"(?:[●○×↻*] )?(?P<name>[\w@:.\\-]{1,120}\.(?:service|target|socket|timer|mount))(?: - .*)?")
_LOADED = re.compile(r"\s*Loaded: (?P<load>[\w-]+)(?: \([^;)]*(?:; (?P<enabled>[\w-]+))?)?.*")
_ACTIVE = re.compile(r"\s*Active: (?P<active>[\w-]+)(?: \((?:Result: )?(?P<sub>[\w-]+)\))?.*")
# The wordings of systemctl(1) 219 to 257 for start, status and enable of a name that no file defines.
_ABSENT = re.compile(
    r"Unit (?P<plain>[\w@.\\-]{1,120}) (?:could not be found|not found|not loaded)"
    r"|Unit file (?P<file>[\w@.\\-]{1,120}) does not exist"
    r"|Failed to \w+ (?P<failed>(?!unit:)[\w@.\\-]{1,120}): Unit .{0,120}?(?:not found|does not exist)"
)
_NO_FILE = re.compile(r"Failed to (?:enable|disable|get unit file state).{0,60}: No such file or directory")
_SHAPE = re.compile(rf"^(?:{_HEAD.pattern})\n\s+Loaded: ", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    facts = [*_shown(block), *_status(block), *_absent(block), *_state(block)]
    if not facts and block.rc not in (0, None):
        return Unknown(f"systemctl gave nothing: {block.output.strip()[:200]}")
    return facts


def _shown(block: Block) -> list[Fact]:
    facts: list[Fact] = []
    for paragraph in block.output.split("\n\n"):
        fields = {m["key"]: m["value"].strip() for line in paragraph.split("\n") if (m := _PAIR.fullmatch(line))}
        name = fields.get("Id")
        if not name or "LoadState" not in fields:
            continue
        active, load = fields.get("ActiveState", ""), fields["LoadState"]
        facts.append(
            Unit(
                quote=block.quote(f"Id={name} LoadState={load} ActiveState={active} Result={fields.get('Result', '')}"),
                name=name,
                load=load,
                active=active,
                enabled=fields.get("UnitFileState", ""),
                stale=fields.get("NeedDaemonReload") == "yes",
                sub=fields.get("SubState", ""),
                result=fields.get("Result", ""),
                restarts=_count(fields.get("NRestarts", "")),
                pid=_count(fields.get("MainPID", "")),
            )
        )
    return facts


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= 18 else 0


def _status(block: Block) -> list[Fact]:
    facts: list[Fact] = []
    name, load, enabled, shown = "", "", "", ""
    for line in (line[:600] for line in block.lines):
        if head := _HEAD.fullmatch(line.rstrip()):
            name, load = head["name"], ""
        elif name and (loaded := _LOADED.fullmatch(line)):
            load, enabled, shown = loaded["load"], loaded["enabled"] or "", line.strip()
        elif name and load and (active := _ACTIVE.fullmatch(line)):
            facts.append(
                Unit(
                    quote=block.quote(f"{name}: {shown}; {line.strip()}"),
                    name=name,
                    load=load,
                    active=active["active"],
                    enabled=enabled,
                    stale="has changed on disk" in block.output,
                    sub=active["sub"] or "",
                    result=active["sub"] or "" if active["active"] == "failed" else "",
                )
            )
            name = ""
    return facts


def _state(block: Block) -> list[Fact]:
    """`is-active` and `is-failed` print one word a unit, in the order asked; `inactive` also of one that does not exist."""
    asked = block.command.split()
    verb = next((word for word in ("is-active", "is-failed") if word in asked), None)
    if verb is None:
        return []
    names = [word for word in asked[asked.index(verb) + 1 :] if word[0] not in "-|&;"]
    states = [line.strip() for line in block.lines]
    return [
        Unit(
            quote=block.quote(f"{name}: {state}"),
            name=name if "." in name else f"{name}.service",
            load="loaded" if state != "inactive" else "",
            active=state,
            enabled="",
            stale=False,
        )
        for name, state in zip(names, states, strict=False)
        if state in ("active", "inactive", "failed", "activating", "deactivating", "reloading")
    ]


def _absent(block: Block) -> list[Fact]:
    facts: list[Fact] = []
    for line in (line[:600] for line in block.lines):
        if match := _ABSENT.search(line):
            name = (match["plain"] or match["file"] or match["failed"]).rstrip(".")
            facts.append(UnitAsked(quote=block.quote(line.strip()), name=name))
        elif _NO_FILE.search(line):
            asked = [word for word in words(block.command) if word and word[0] != "-"]
            after = asked[asked.index("systemctl") + 2 :] if "systemctl" in asked else []
            facts += [UnitAsked(quote=block.quote(line.strip()), name=name) for name in after]
    return facts


def _claims(block: Block) -> bool:
    return "systemctl" in words(block.command) or looks_like(block, _ABSENT) or looks_like(block, _SHAPE)


READER = Reader("systemctl", _claims, parse)
