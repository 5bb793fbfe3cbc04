"""Installed packages: dpkg-query -W (name, blank or tab, version), rpm -qa (name-version-release.arch), dpkg -l; ofed_info -s."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Package
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_QUERY = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]{1,100})(?::\w{1,10})?[ \t]+(?P<version>\d\S{0,100})")
_LIST = re.compile(r"ii\s+(?P<name>[a-z0-9][a-z0-9+.-]{1,100})(?::\w{1,10})?\s+(?P<version>\S{1,100})\s.*")
# The version begins at the last but one dash; an epoch and the architecture stay with it.
_RPM = re.compile(r"(?P<name>[A-Za-z0-9][\w+.-]{0,100})-(?P<version>[^\s-]{1,60}-[^\s-]{1,60})")
# MLNX_OFED_LINUX-23.10-2.1.3.1:
_OFED = re.compile(r"(?P<name>MLNX_OFED_LINUX|OFED-internal|DOCA[A-Z_-]{0,20})-(?P<version>\d[\w.-]{2,60}):?")


def parse(block: Block) -> list[Fact] | Unknown:
    parts = words(block.command)
    shapes = (_OFED,) if "ofed_info" in parts else (_RPM,) if "rpm" in parts else (_QUERY, _LIST)
    facts: list[Fact] = []
    for line in block.lines:
        match = next((found for shape in shapes if (found := shape.fullmatch(line.strip()))), None)
        if match:
            facts.append(Package(quote=block.quote(line.strip()), name=match["name"], version=match["version"]))
    if not facts and block.rc not in (0, 1, None):
        return Unknown(f"the packages were not told: {' '.join(block.output.split())[:200]}")
    return facts


def _claims(block: Block) -> bool:
    parts = words(block.command)
    return (
        "ofed_info" in parts
        or "dpkg-query" in parts
        or ("dpkg" in parts and "-l" in parts)
        or ("rpm" in parts and "-qa" in parts)
    )


READER = Reader("packages", _claims, parse)
