"""devlink dev info, as text and JSON. Auxiliary devices have no versions; 255.255.65535 stands for a stored version that the
card did not tell."""

import json
import re
from typing import Any

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.firmware import FirmwareImages
from pdchecks.parse.reader import Reader, given, looks_like, runs
from pdchecks.unknown import Unknown

_DEVICE = re.compile(r"(?P<device>[a-z_]{1,24}/[^\s:]\S{0,80}):\s*")
_SHAPE = re.compile(r"^(?:pci|auxiliary)/\S+:\s*\n\s+driver \S+|^\{\"info\":", re.MULTILINE)
_SENTINEL = "255.255.65535"
_GROUPS = ("fixed", "running", "stored")

# Documentation/networking/devlink/{mlx5,bnxt,ice}.rst; ice names a whole image by its bundle.
_IMAGE = ("fw.version", "fw", "fw.bundle_id", "fw.mgmt")

_Versions = dict[str, dict[str, str]]


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if text.startswith("{"):
        try:
            data: Any = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("devlink printed JSON that cannot be read")
        info = data.get("info") if isinstance(data, dict) else None
        devices = info.items() if isinstance(info, dict) else ()
        found = [(str(name), _json_versions(body)) for name, body in devices]
    else:
        found = _text_versions(block.lines)
    facts: list[Fact] = [
        _images(block, device, versions) for device, versions in found if versions["running"] or versions["stored"]
    ]
    if not facts and block.rc not in (0, None):
        return Unknown(f"devlink gave nothing: {text[:200]}")
    return facts


def _json_versions(body: object) -> _Versions:
    versions = body.get("versions") if isinstance(body, dict) else None
    groups = versions if isinstance(versions, dict) else {}
    return {
        group: {str(k): str(v) for k, v in groups[group].items()} if isinstance(groups.get(group), dict) else {}
        for group in _GROUPS
    }


def _text_versions(lines: list[str]) -> list[tuple[str, _Versions]]:
    found: list[tuple[str, _Versions]] = []
    group = ""
    for line in lines:
        word = line.strip()
        if head := _DEVICE.fullmatch(line):
            found.append((head["device"], {name: {} for name in _GROUPS}))
            group = ""
        elif word.endswith(":") and word[:-1] in _GROUPS:
            group = word[:-1]
        elif found and group and " " in word:
            key, _, value = word.partition(" ")
            found[-1][1][group][key] = value.strip()
    return found


def _images(block: Block, device: str, versions: _Versions) -> FirmwareImages:
    # The same thing on both sides: what the card stores need not be what it runs under another key.
    both = [key for key in _IMAGE if key in versions["running"] and key in versions["stored"]]
    key = next(iter([*both, *(key for key in _IMAGE if key in versions["running"] or key in versions["stored"])]), "")
    running, stored = versions["running"].get(key), versions["stored"].get(key)
    return FirmwareImages(
        quote=block.quote(f"{device}: running {running} stored {stored}"),
        device=device,
        psid=given(versions["fixed"].get("fw.psid"), "fw.psid"),
        running=given(running, "the running version"),
        stored=Unknown("the card did not tell its stored version")
        if stored is not None and _SENTINEL in stored
        else given(stored, "the stored version"),
    )


READER = Reader("devlink", lambda block: runs(block, "devlink") or looks_like(block, _SHAPE), parse)
