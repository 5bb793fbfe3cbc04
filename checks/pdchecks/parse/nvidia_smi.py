"""nvidia-smi: CSV of --query-gpu, --query-remapped-rows and --query-compute-apps, and its errors. Any single field may hold
a sentinel such as [N/A] or [Insufficient Permissions]; one unknown name of a field fails the whole query. The name of a
process may contain commas."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.gpu import Gpu, GpuProcess, GpuQueryRefused
from pdchecks.parse.reader import Reader, looks_like, runs
from pdchecks.unknown import Unknown

_QUERY = re.compile(
    r"--query-(?P<what>gpu|compute-apps|accounted-apps|remapped-rows)[= ][\"']?(?P<fields>[\w., ]{1,2000})"
)
_INVALID = re.compile(r"Field \"(?P<field>[^\"]{1,80})\" is not a valid field to query")
_BROKEN = re.compile(
    r"Failed to initialize NVML: .{1,120}|No devices were found|NVIDIA-SMI has failed.{0,160}"
    r"|NVIDIA-SMI couldn't find lib.{0,160}|Unable to determine the device handle.{0,160}"
)
_SENTINEL = re.compile(r"\[.{1,60}\]|ERR!|N/A")
_HEADER = re.compile(r"^(?:[a-z][\w.]*(?: \[[\w%]+\])?)(?:, [a-z][\w.]*(?: \[[\w%/]+\])?)+$", re.MULTILINE)
# Names that the driver prints in place of the ones that were asked.
_ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "used_memory": "used_gpu_memory",
    "gpu_bus_id": "pci.bus_id",
    **{
        f"clocks_throttle_reasons.{reason}": f"clocks_event_reasons.{reason}"
        for reason in ("active", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    },
}


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if invalid := _INVALID.search(text):
        what = _QUERY.search(block.command)
        return [
            GpuQueryRefused(
                quote=block.quote(invalid[0]),
                field=invalid["field"],
                words=invalid[0],
                what=what["what"] if what else "",
            )
        ]
    if broken := _BROKEN.search(text):
        return [GpuQueryRefused(quote=block.quote(broken[0]), field="", words=broken[0])]
    query = _QUERY.search(block.command)
    asked = [name.strip() for name in query["fields"].split(" --")[0].split(",")] if query else []
    apps = query["what"].endswith("apps") if query else "pid" in (text.split("\n")[0])
    rows = [line for line in block.lines if line.strip()]
    header = bool(rows) and _HEADER.fullmatch(rows[0].strip()) is not None
    if header:
        asked = [re.sub(r" \[.*\]$", "", name) for name in rows[0].strip().split(", ")]
    if not asked:
        return []
    if not rows and block.rc not in (0, None):
        return Unknown(f"nvidia-smi ended with status {block.rc} and printed nothing")
    facts: list[Fact] = []
    for number, row in enumerate(rows[1:] if header else rows):
        cells = _cells(row, asked)
        if cells is None:
            continue
        fields = {_ALIASES.get(name, name): _field(name, cell) for name, cell in zip(asked, cells, strict=True)}
        facts.append(_process(block, row, fields) if apps else _gpu(block, row, number, fields))
    return facts


def _cells(row: str, asked: list[str]) -> list[str] | None:
    cells = row.strip().split(", ")
    extra = len(cells) - len(asked)
    names = [_ALIASES.get(name, name) for name in asked]
    column = names.index("process_name") if "process_name" in names else names.index("name") if "name" in names else -1
    if extra > 0 and column >= 0:
        cells[column : column + extra + 1] = [", ".join(cells[column : column + extra + 1])]
    return cells if len(cells) == len(asked) else None


def _field(name: str, cell: str) -> str | Unknown:
    cell = cell.strip()
    if not cell:
        return Unknown(f"{name} is empty")
    return Unknown(f"{name}: {cell.strip('[]')}") if _SENTINEL.fullmatch(cell) else cell


def _gpu(block: Block, row: str, number: int, fields: dict[str, str | Unknown]) -> Gpu:
    index, uuid = fields.get("index"), fields.get("uuid")
    label = next((f"GPU {value}" for value in (index, uuid) if isinstance(value, str)), f"GPU in row {number}")
    return Gpu(quote=block.quote(row.strip()), label=label, fields=fields)


def _process(block: Block, row: str, fields: dict[str, str | Unknown]) -> GpuProcess:
    gpu = next((v for key in ("uuid", "pci.bus_id") if isinstance(v := fields.get(key), str)), "(GPU not named)")
    absent = Unknown("the query did not ask for it")
    return GpuProcess(
        quote=block.quote(row.strip()),
        gpu=gpu,
        pid=_number(fields.get("pid", absent)),
        name=fields.get("process_name", absent),
        used_mib=_number(fields.get("used_gpu_memory", absent)),
    )


def _number(value: str | Unknown) -> int | Unknown:
    if isinstance(value, Unknown):
        return value
    match = re.match(r"(\d{1,12})(?: MiB)?\s*$", value)
    return int(match[1]) if match else Unknown(f"not a number: {value[:40]!r}")


READER = Reader(
    "nvidia-smi",
    lambda block: (
        runs(block, "nvidia-smi")
        or looks_like(block, _INVALID)
        or looks_like(block, _BROKEN)
        or looks_like(block, _HEADER)
    ),
    parse,
    events=True,
)
