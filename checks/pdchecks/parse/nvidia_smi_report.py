"""nvidia-smi for people: the table it prints by itself, and the sections of `-q`. The vendor keeps neither stable; the
names of the fields are those of --query-gpu."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.gpu import Gpu, GpuProcess
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_TABLE = re.compile(
    r"^\|\s+NVIDIA-SMI \d|^\| Processes:"
    r"|^\|\s{1,5}\d{1,3}\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?\d{1,10}\s+[CGM+]{1,5}\s.*MiB\s*\|",
    re.MULTILINE,
)
_QUERY = re.compile(r"^=+NVSMI LOG=+", re.MULTILINE)
# | 0  NVIDIA H100 80GB HBM3  On  | 00000000:18:00.0 Off |  0 |
_FIRST = re.compile(
    r"\|\s{1,4}(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s+(?P<persistence>On|Off|N/A)\s*\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{6,9})"
    r"\s.*\|\s*(?P<ecc>\S+)\s*\|"
)
# | N/A  36C  P0  115W / 700W |  72341MiB / 81559MiB |  0%  Default |
_SECOND = re.compile(
    r"\|[^|]*\|\s*(?:(?P<used>\d{1,9})MiB|(?P<hidden>N/A|\S.*?))\s*/\s*(?:(?P<total>\d{1,9})MiB|\S.*?)\s*\|\s*(?P<load>\S+)\s+(?P<mode>Default|E\. Process|Prohibited|E\. Thread)\s*\|"
)
_MIG = re.compile(r"\|\s*\|\s*\|\s*(?P<mig>Enabled|Disabled|N/A)\*?\s*\|")
_PROCESS = re.compile(
    r"\|\s{1,5}(?P<gpu>\d{1,3})\s+(?:(?P<instances>(?:N/A|\d+)\s+(?:N/A|\d+))\s+)?(?P<pid>\d{1,10})\s+(?P<type>[CGM+]{1,5})\s+(?P<name>.*?)\s+(?:(?P<used>\d{1,9})MiB|N/A)\s*\|"
)
_MODES = {"E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread"}

# | NVIDIA-SMI 550.54.15  Driver Version: 550.54.15  CUDA Version: 12.4 |, and `Driver Version : 550.54.15` of -q.
_DRIVER = re.compile(r"(?:\|\s+NVIDIA-SMI \S.*\s)?Driver Version\s*: (?P<driver>\d[\d.]{2,20})\b")
_GPU = re.compile(r"GPU (?P<bus>[0-9A-Fa-f]{8}:[0-9A-Fa-f:.]{7,9})\s*")
_FIELD = re.compile(r"(?P<indent>\s{2,40})(?P<key>[A-Z][A-Za-z0-9 /()_-]{0,60}?)\s*(?:: (?P<value>.*))?")
# The sections of -q, joined by a slash, and the names that --query-gpu gives to the same values.
_NAMES = {
    "Product Name": "name",
    "GPU UUID": "uuid",
    "Persistence Mode": "persistence_mode",
    "MIG Mode/Current": "mig.mode.current",
    "MIG Mode/Pending": "mig.mode.pending",
    "FB Memory Usage/Total": "memory.total",
    "FB Memory Usage/Used": "memory.used",
    "FB Memory Usage/Free": "memory.free",
    "Compute Mode": "compute_mode",
    "ECC Mode/Current": "ecc.mode.current",
    "ECC Mode/Pending": "ecc.mode.pending",
    "ECC Errors/Volatile/DRAM Uncorrectable": "ecc.errors.uncorrected.volatile.dram",
    "ECC Errors/Volatile/SRAM Uncorrectable": "ecc.errors.uncorrected.volatile.sram",
    "ECC Errors/Volatile/SRAM Uncorrectable Parity": "ecc.errors.uncorrected.volatile.sram",
    "ECC Errors/Aggregate/DRAM Uncorrectable": "ecc.errors.uncorrected.aggregate.dram",
    "ECC Errors/Aggregate/SRAM Uncorrectable": "ecc.errors.uncorrected.aggregate.sram",
    "ECC Errors/Volatile/Double Bit/Total": "ecc.errors.uncorrected.volatile.total",
    "ECC Errors/Aggregate/Double Bit/Total": "ecc.errors.uncorrected.aggregate.total",
    "Retired Pages/Pending Page Blacklist": "retired_pages.pending",
    "Retired Pages/Pending": "retired_pages.pending",
    "Fabric/State": "fabric.state",
    "Fabric/Status": "fabric.status",
    "Clocks Event Reasons/HW Thermal Slowdown": "clocks_event_reasons.hw_thermal_slowdown",
    "Clocks Event Reasons/HW Power Brake Slowdown": "clocks_event_reasons.hw_power_brake_slowdown",
    "Clocks Event Reasons/SW Thermal Slowdown": "clocks_event_reasons.sw_thermal_slowdown",
    "Clocks Throttle Reasons/HW Thermal Slowdown": "clocks_event_reasons.hw_thermal_slowdown",
    "Clocks Throttle Reasons/HW Power Brake Slowdown": "clocks_event_reasons.hw_power_brake_slowdown",
    "Clocks Throttle Reasons/SW Thermal Slowdown": "clocks_event_reasons.sw_thermal_slowdown",
    "Remapped Rows/Correctable Error": "remapped_rows.correctable",
    "Remapped Rows/Uncorrectable Error": "remapped_rows.uncorrectable",
    "Remapped Rows/Pending": "remapped_rows.pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows.failure",
}
_SENTINEL = re.compile(r"\[?(?:N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU is lost|Not Found)\]?|ERR!")


def parse(block: Block) -> list[Fact] | Unknown:
    return _sections(block) if looks_like(block, _QUERY) else _table(block)


def _value(name: str, text: str) -> str | Unknown:
    return Unknown(f"{name}: {text.strip('[]')}") if not text or _SENTINEL.fullmatch(text) else text


def _driver(block: Block) -> dict[str, str | Unknown]:
    """One for all GPUs of a node; it stands in the banner."""
    found = next((match for line in block.lines[:12] if (match := _DRIVER.match(line[:400]))), None)
    return {"driver_version": found["driver"]} if found else {}


def _table(block: Block) -> list[Fact]:
    facts: list[Fact] = []
    index, fields, shown = "", dict[str, str | Unknown](), ""

    def close() -> None:
        if index:
            facts.append(Gpu(quote=block.quote(shown), label=f"GPU {index}", fields=dict(fields)))

    for line in (line[:400] for line in block.lines):
        if process := _PROCESS.fullmatch(line.rstrip()):
            facts.append(_process(block, line, process))
        elif first := _FIRST.match(line):
            close()
            index, shown = first["index"], line.strip()
            fields = {
                "index": index,
                "name": first["name"],
                **_driver(block),
                "pci.bus_id": first["bus"],
                "persistence_mode": _value(
                    "persistence_mode", {"On": "Enabled", "Off": "Disabled"}.get(first["persistence"], "N/A")
                ),
                "ecc.errors.uncorrected.volatile.total": _value(
                    "ecc errors", "N/A" if first["ecc"] == "Off" else first["ecc"]
                ),
            }
        elif index and (second := _SECOND.match(line)):
            shown = f"{shown} {line.strip()}"
            hidden = second["hidden"] or "N/A"
            fields |= {
                "memory.used": second["used"] or _value("memory.used", hidden),
                "memory.total": second["total"] or _value("memory.total", hidden),
                "compute_mode": _MODES.get(second["mode"], second["mode"]),
            }
        elif index and (mig := _MIG.match(line)):
            fields["mig.mode.current"] = _value("mig.mode.current", mig["mig"])
        elif index and line.startswith("| Processes"):
            close()
            index = ""
    close()
    return facts


def _process(block: Block, line: str, match: re.Match[str]) -> GpuProcess:
    return GpuProcess(
        quote=block.quote(" ".join(line.split())),
        gpu=f"GPU {match['gpu']}",
        pid=int(match["pid"]),
        name=match["name"],
        used_mib=int(match["used"]) if match["used"] else Unknown("used memory: N/A"),
        kind=match["type"],
    )


def _sections(block: Block) -> list[Fact]:
    facts: list[Fact] = []
    fields: dict[str, str | Unknown] = {}
    open_sections: list[tuple[int, str]] = []
    for line in (line[:400] for line in block.lines):
        if head := _GPU.fullmatch(line):
            fields, open_sections = {"pci.bus_id": head["bus"], **_driver(block)}, []
            facts.append(Gpu(quote=block.quote(line.strip()), label=f"GPU {head['bus']}", fields=fields))
        elif facts and (field := _FIELD.fullmatch(line.rstrip())):
            depth = len(field["indent"])
            while open_sections and open_sections[-1][0] >= depth:
                open_sections.pop()
            path = "/".join([*(name for _, name in open_sections), field["key"]])
            if field["value"] is None:
                open_sections.append((depth, field["key"]))
            elif name := _NAMES.get(path):
                fields[name] = _value(name, field["value"].strip())
    return facts


READER = Reader("nvidia-smi", lambda block: looks_like(block, _TABLE) or looks_like(block, _QUERY), parse)
