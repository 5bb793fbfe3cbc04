"""mlxconfig and mstconfig query: one "Next Boot" column, or with -e also Default and Current."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.firmware import NvParameter
from pdchecks.parse.reader import Reader, looks_like, runs
from pdchecks.unknown import Unknown

_DEVICE = re.compile(r"Device:\s+(?P<device>\S+)|Pci device:\s+(?P<pci>\S+)|Device #\d+:")
_PARAMETER = re.compile(r"[\s*|]*(?P<name>[A-Z][A-Z0-9_]{2,60}(?:\[[\d.]+\])?)\s+(?P<values>\S.*)")
_SHAPE = re.compile(r"^Configurations:\s+(?:Default\s+Current\s+)?Next Boot", re.MULTILINE)
_READ_ONLY = re.compile(r"\s*RO\s*")


def parse(block: Block) -> list[Fact] | Unknown:
    device = "(device not named)"
    columns = 0
    facts: list[Fact] = []
    for line in block.lines:
        if "Next Boot" in line:
            columns = 3 if "Default" in line else 1
        elif head := _DEVICE.match(line.strip()):
            device = head["device"] or head["pci"] or device
        elif columns and (match := _PARAMETER.fullmatch(line)) and not _READ_ONLY.fullmatch(match["values"]):
            values = match["values"].split()
            if len(values) != columns:
                continue
            now = values[1] if columns == 3 else Unknown("the query was made without -e: only the next boot is shown")
            facts.append(
                NvParameter(
                    quote=block.quote(line.strip()), device=device, name=match["name"], now=now, next_boot=values[-1]
                )
            )
    return facts or Unknown(f"no configuration was printed: {block.output.strip()[:200]}")


def _claims(block: Block) -> bool:
    return runs(block, "mlxconfig", "mstconfig") or looks_like(block, _SHAPE)


READER = Reader("mlxconfig", _claims, parse)
