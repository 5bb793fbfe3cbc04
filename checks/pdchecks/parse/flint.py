"""mstflint and flint query, and mlxfwmanager --query: the image on flash, the one that runs where it differs, the PSID."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.firmware import FirmwareImages
from pdchecks.parse.reader import Reader, argument, given, looks_like, runs
from pdchecks.unknown import Unknown

_VERSION = re.compile(r"\s{0,8}FW Version(?P<running>\(Running\))?:\s{1,40}(?P<version>\d{1,3}(?:\.\d{1,5}){2})")
_PSID = re.compile(r"\s{0,8}PSID:\s{1,40}(?P<psid>[A-Za-z0-9_]{4,32})")
_PCI = re.compile(r"\s{0,8}PCI Device Name:\s{1,40}(?P<device>\S{1,40})")
# mlxfwmanager's table: the component, its current and its available version.
_ROW = re.compile(r"\s{2,12}FW\s{1,40}(?P<version>\d{1,3}(?:\.\d{1,5}){2})\b")
_SHAPE = re.compile(r"^(?:Image type:\s+FS\d|Querying Mellanox devices firmware)", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    device = argument(block.command, "-d") or "(device not named)"
    facts: list[Fact] = []
    psid: str | None = None
    stored = running = ""

    def close() -> None:
        if stored:
            facts.append(
                FirmwareImages(
                    quote=block.quote(f"{device}: FW {stored}" + (f" running {running}" if running else "")),
                    device=device,
                    psid=given(psid, "PSID"),
                    running=running or stored,
                    stored=stored,
                )
            )

    for line in (line[:200] for line in block.lines):
        if line.startswith("Device #"):
            close()
            psid, stored, running = None, "", ""
        elif version := _VERSION.match(line):
            if version["running"]:
                running = version["version"]
            else:
                stored = version["version"]
        elif row := _ROW.match(line):
            stored = row["version"]
        elif name := _PCI.match(line):
            device = name["device"]
        elif found := _PSID.match(line):
            psid = found["psid"]
    close()
    return facts or Unknown(f"no firmware version was printed: {block.output.strip()[:200]}")


def _claims(block: Block) -> bool:
    return runs(block, "mstflint", "flint", "mlxfwmanager") or looks_like(block, _SHAPE)


READER = Reader("flint", _claims, parse)
