"""Small host files: /etc/os-release, env, timedatectl and chronyc, PCI link files of sysfs."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.host import ClockSync, Environment, OsRelease
from pdchecks.facts.net import PciLink
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

_OS = re.compile(r"(?P<key>ID|ID_LIKE|VERSION_ID)=[\"']?(?P<value>[^\"'\n]{0,120})[\"']?")
_ENV = re.compile(r"(?:export )?(?P<name>[A-Z][A-Z0-9_]{1,60})=(?P<value>.{0,400})")
_PCI = re.compile(
    r"\S*/(?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/(?P<file>(?:current|max)_link_(?:speed|width)):(?P<value>[\d.]{1,8})"
)
# Distributions by the family names that Ansible uses (ansible_os_family).
_FAMILIES = {"debian": "Debian", "ubuntu": "Debian", "rhel": "RedHat", "centos": "RedHat", "fedora": "RedHat"}


def parse(block: Block) -> list[Fact] | Unknown:
    parts = words(block.command)
    if "os-release" in parts:
        return _os_release(block)
    if "timedatectl" in parts or "chronyc" in parts:
        return _clock(block)
    if "link_speed" in block.command or "link_width" in block.command:
        return _pci(block)
    matches = [match for line in block.lines if (match := _ENV.fullmatch(line.strip()))]
    values = {match["name"]: match["value"] for match in matches}
    shown = " ".join(match[0] for match in matches[:8])
    return [Environment(quote=block.quote(shown), values=values)] if values else []


def _os_release(block: Block) -> list[Fact] | Unknown:
    fields = {match["key"]: match["value"] for line in block.lines if (match := _OS.fullmatch(line.strip()))}
    if "ID" not in fields:
        return Unknown("os-release names no ID")
    names = [fields["ID"], *fields.get("ID_LIKE", "").split()]
    family = next((_FAMILIES[name] for name in names if name in _FAMILIES), fields["ID"])
    shown = f"ID={fields['ID']} VERSION_ID={fields.get('VERSION_ID', '')}"
    return [OsRelease(quote=block.quote(shown), id=fields["ID"], version=fields.get("VERSION_ID", ""), family=family)]


def _clock(block: Block) -> list[Fact]:
    for line in block.lines:
        if match := re.match(r"\s*(?:NTPSynchronized=|System clock synchronized: |NTP synchronized: )(yes|no)", line):
            return [ClockSync(quote=block.quote(line.strip()), synchronised=match[1] == "yes", by="timedatectl")]
        if match := re.match(r"Leap status\s+: (?P<leap>.+)", line):
            return [
                ClockSync(quote=block.quote(line), synchronised="Not synchronised" not in match["leap"], by="chronyc")
            ]
    return []


def _pci(block: Block) -> list[Fact]:
    links: dict[str, dict[str, float]] = {}
    for line in block.lines:
        if match := _PCI.match(line):
            try:
                links.setdefault(match["address"], {})[match["file"]] = float(match["value"])
            except ValueError:
                continue
    return [
        PciLink(
            quote=block.quote(
                f"{address}: {files['current_link_speed']:g} GT/s x{files['current_link_width']:g} of "
                f"{files['max_link_speed']:g} GT/s x{files['max_link_width']:g}"
            ),
            address=address,
            kind="",
            speed=files["current_link_speed"],
            width=int(files["current_link_width"]),
            max_speed=files["max_link_speed"],
            max_width=int(files["max_link_width"]),
        )
        for address, files in links.items()
        if len(files) == 4
    ]


def _claims(block: Block) -> bool:
    parts = words(block.command)
    named = any(word in ("os-release", "env", "printenv", "timedatectl", "chronyc") for word in parts)
    return named or "_link_speed" in block.command or "_link_width" in block.command


READER = Reader("host", _claims, parse)
