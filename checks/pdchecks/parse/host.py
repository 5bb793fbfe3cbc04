"""Small host files: /etc/os-release, env, timedatectl, chronyc, PCI link files of sysfs, huge pages, Python versions."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.gpu import GpuPresent, VisibleDevices
from pdchecks.facts.host import ClockSync, Environment, HugePages, OsRelease, PythonModule, PythonVersion
from pdchecks.facts.net import PciLink
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_OS = re.compile(r"(?P<key>ID|ID_LIKE|VERSION_ID)=[\"']?(?P<value>[^\"'\n]{0,120})[\"']?")
_ENV = re.compile(r"(?:export )?(?P<name>[A-Z][A-Z0-9_]{1,60})=(?P<value>.{0,400})")
_PCI = re.compile(
    r"\S*/(?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/(?P<file>(?:current|max)_link_(?:speed|width)):(?P<value>[\d.]{1,8})"
)
_HUGE = re.compile(r"(?P<key>HugePages_(?:Total|Free|Rsvd)|Hugepagesize):\s+(?P<value>\d{1,12})(?: kB)?\s*")
_HUGE_SHAPE = re.compile(r"^HugePages_Total:\s+\d", re.MULTILINE)
_PYTHON = re.compile(r"Python (?P<major>\d)\.(?P<minor>\d{1,3})(?:\.\S{1,20})?\s*")
_IMPORT = re.compile(r"(?P<path>\S*(?:platform-)?python[\d.]*) -c \W*import (?P<module>\w{2,30})")
_ENVIRON = re.compile(r"/proc/(?P<pid>\d{1,10})/environ")
_VISIBLE = re.compile(r"CUDA_VISIBLE_DEVICES=(?P<devices>\S{0,2000})")
# A PCI vendor file of sysfs that names NVIDIA; the collector reads it of display and 3D controllers only.
_NVIDIA = re.compile(r"\S*/(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/vendor:0x10de\s*")
# Distributions by the family names that Ansible uses (ansible_os_family).
_FAMILIES = {"debian": "Debian", "ubuntu": "Debian", "rhel": "RedHat", "centos": "RedHat", "fedora": "RedHat"}


def parse(block: Block) -> list[Fact] | Unknown:
    parts = words(block.command)
    if "os-release" in parts:
        return _os_release(block)
    if "timedatectl" in parts or "chronyc" in parts:
        return _clock(block)
    if environ := _ENVIRON.search(block.command):
        return _visible(block, int(environ["pid"]))
    if "_link_" in block.command:
        return _pci(block)
    if "/vendor" in block.command:
        addresses = tuple(match["address"] for line in block.lines if (match := _NVIDIA.fullmatch(line)))
        return [GpuPresent(quote=block.quote(" ".join(addresses)), addresses=addresses)] if addresses else []
    if "meminfo" in parts or looks_like(block, _HUGE_SHAPE):
        return _huge_pages(block)
    if any(re.fullmatch(r"(?:platform-)?python[\d.]*", part) for part in parts):
        return _python(block)
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


def _clock(block: Block) -> list[Fact] | Unknown:
    offset: float | Unknown = Unknown("the tool names no offset")
    for line in block.lines:
        if match := re.match(r"\s*(?:NTPSynchronized=|System clock synchronized: |NTP synchronized: )(yes|no)", line):
            synchronised = match[1] == "yes"
            return [
                ClockSync(quote=block.quote(line.strip()), synchronised=synchronised, by="timedatectl", offset_s=offset)
            ]
        if match := re.match(r"System time\s+: (?P<offset>\d{1,12}\.\d{1,12}) seconds", line):
            offset = float(match["offset"])
        if match := re.match(r"Leap status\s+: (?P<leap>.+)", line):
            synchronised = "Not synchronised" not in match["leap"]
            return [ClockSync(quote=block.quote(line), synchronised=synchronised, by="chronyc", offset_s=offset)]
    if block.rc not in (0, None):
        return Unknown(f"the clock was not told: {' '.join(block.output.split())[:200]}")
    return []


def _visible(block: Block, pid: int) -> list[Fact]:
    match = next((found for line in block.lines if (found := _VISIBLE.fullmatch(line.strip()))), None)
    if match is None:
        return []
    devices = tuple(word for word in match["devices"].split(",") if word)
    return [VisibleDevices(quote=block.quote(match[0]), pid=pid, devices=devices)]


def _huge_pages(block: Block) -> list[Fact]:
    values = {match["key"]: int(match["value"]) for line in block.lines if (match := _HUGE.fullmatch(line))}
    if not {"HugePages_Total", "HugePages_Free", "Hugepagesize"} <= values.keys():
        return []
    total, free, reserved = values["HugePages_Total"], values["HugePages_Free"], values.get("HugePages_Rsvd", 0)
    quote = block.quote(f"HugePages_Total: {total} HugePages_Free: {free} HugePages_Rsvd: {reserved}")
    return [HugePages(quote=quote, total=total, free=free, reserved=reserved, page=values["Hugepagesize"] * 1024)]


def _python(block: Block) -> list[Fact]:
    if asked := _IMPORT.search(block.command):
        why = block.lines[-1].strip() if block.lines else ""
        quote = block.quote(why or f"exit status {block.rc}")
        path, module = asked["path"], asked["module"]
        return [PythonModule(quote=quote, path=path, module=module, present=block.rc == 0, why=why)]
    path = next((word for word in block.command.split() if "python" in word), "python3")
    return [
        PythonVersion(quote=block.quote(line), path=path, version=(int(match["major"]), int(match["minor"])))
        for line in block.lines
        if (match := _PYTHON.fullmatch(line))
    ]


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
    named = any(word in ("os-release", "env", "printenv", "timedatectl", "chronyc", "meminfo") for word in parts)
    python = any(re.fullmatch(r"(?:platform-)?python[\d.]*", word) for word in parts)
    asks = python and any(word in ("-V", "--version", "-c") for word in parts)
    pci = "_link_" in block.command or ("/vendor" in block.command and "/pci/" in block.command)
    return named or asks or pci or _ENVIRON.search(block.command) is not None or looks_like(block, _HUGE_SHAPE)


READER = Reader("host", _claims, parse)
