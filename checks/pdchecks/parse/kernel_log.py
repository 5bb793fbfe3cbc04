"""The kernel log: dmesg, -T, syslog and journal prefixes. Only lines that mean something become facts; the table below is the
list of what means something, with the driver file that prints it."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.log import KernelEvent
from pdchecks.facts.net import PciBandwidth
from pdchecks.parse.kernel_faults import FAULTS, NEEDED
from pdchecks.parse.reader import Reader, looks_like, runs
from pdchecks.unknown import Unknown

# kind -> pattern; `device` and `detail` are its groups. The first that matches a line names it.
_EVENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # drivers/infiniband/hw/mlx5/qp.c, mlx5_ib_qp_event
    ("qp-error", re.compile(r"(?P<device>[\w.-]{1,40}/\d{1,3}): QP \d{1,10} error: (?P<detail>[a-z ]{3,60})")),
    # drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_cmd_check / mlx5_cmd_out_err
    (
        "command-refused",
        re.compile(
            r"mlx5_core (?P<device>[0-9a-f:.]{7,14}): mlx5_cmd_(?:check|out_err):.{0,60}?: ?(?P<detail>[A-Z0-9_]{3,40}\(0x[0-9a-f]+\)"
            r".{0,40}failed, status .{1,60}?\(0x[0-9a-f]+\))"
        ),
    ),
    # drivers/infiniband/hw/mlx5/mr.c, create_mkey_callback
    (
        "mkey-refused",
        re.compile(
            r"\b(?!kernel:)(?P<device>[\w.-]{1,40}): .{0,80}?(?P<detail>async reg mr failed\. status -?\d{1,4})"
        ),
    ),
    # drivers/infiniband/hw/mlx5/cq.c, dump_cqe
    (
        "cqe-error",
        re.compile(
            r"\b(?!kernel:)(?P<device>[\w.-]{1,40}): .{0,60}?WC error: (?P<detail>\d{1,3}, Message: [A-Za-z ()-]{3,60})"
        ),
    ),
    # drivers/net/ethernet/mellanox/mlx5/core/events.c, port_module and mlx5_pcie_event
    (
        "module-error",
        re.compile(
            r"mlx5_core (?P<device>[0-9a-f:.]{7,14}): .{0,60}?Port module event\[error\]: module \d{1,3}, "
            r"Cable error, (?P<detail>[A-Za-z0-9 /.,()-]{3,80})"
        ),
    ),
    (
        "pcie-power-sufficient",
        re.compile(
            r"mlx5_core (?P<device>[0-9a-f:.]{7,14}): .{0,80}?PCIe slot (?P<detail>advertised sufficient power \(\d{1,4}W\))"
        ),
    ),
    (
        "pcie-power",
        re.compile(
            r"mlx5_core (?P<device>[0-9a-f:.]{7,14}): .{0,80}?(?P<detail>Detected insufficient power on the PCIe slot \(\d{1,4}W\))"
        ),
    ),
    # drivers/net/ethernet/mellanox/mlx5/core/main.c; the driver core's own line
    (
        "capability-refused",
        re.compile(r"mlx5_core (?P<device>[0-9a-f:.]{7,14}): (?:.{0,60}: )?(?P<detail>handle_hca_cap(?:_\w+)? failed)"),
    ),
    (
        "firmware",
        re.compile(r"mlx5_core (?P<device>[0-9a-f:.]{7,14}): firmware version: (?P<detail>\d{1,3}\.\d{1,4}\.\d{1,6})"),
    ),
    # drivers/net/ethernet/mellanox/mlx5/core/cmd.c; i40e_adminq.c and ice_controlq.c
    (
        "firmware-mismatch",
        re.compile(
            r"(?P<driver>mlx5_core|i40e|ice|ixgbe) (?P<device>[0-9a-f:.]{7,14}): .{0,80}?"
            r"(?P<detail>Driver cmdif rev\(\d+\) differs from firmware's\(\d+\)"
            r"|(?:stopped because|detected) .{0,40}NVM image.{0,60}than expected[^.]{0,20}(?:\.\d[^.]{0,20})?\..{0,100})"
        ),
    ),
    (
        "probe-failed",
        re.compile(
            r"(?P<driver>[\w-]{2,24}):? (?:probe of )?(?P<device>[0-9a-f]{4}:[0-9a-f:.]{7,9})(?:: probe| failed|: probe_one).{0,60}?(?:with error|error|err)[ =:]{1,2}(?P<detail>-\d{1,4})"
        ),
    ),
    (
        "probe-failed",
        re.compile(
            r"(?P<driver>[\w-]{2,24}) (?P<device>[0-9a-f]{4}:[0-9a-f:.]{7,9}): "
            r"(?:\w{2,30}:\d{1,5}:\(pid \d{1,9}\): )?(?:\w+_load_one|probe_one|init_one|mlx5_init_one)\w* failed with error code (?P<detail>-\d{1,4})"
        ),
    ),
    # kernel/module/main.c, unknown_module_param_cb
    ("unknown-parameter", re.compile(r"(?P<device>[\w-]{2,40}): unknown parameter '(?P<detail>[\w.-]{1,60})' ignored")),
    # kernel/module/main.c, check_version and simplify_symbols
    (
        "symbol-refused",
        re.compile(
            r"(?P<device>nvidia_peermem|nv_peer_mem): (?P<detail>(?:disagrees about version of|Unknown) symbol \w{1,80})"
        ),
    ),
    # net/core/neighbour.c; the second is the wording before 3.x
    ("neighbour-overflow", re.compile(r"(?P<device>arp_cache|ndisc_cache): (?P<detail>neighbor table overflow)")),
    ("neighbour-overflow", re.compile(r"(?P<device>)(?P<detail>Neighbour table overflow)", re.IGNORECASE)),
    # NVIDIA's kernel module
    ("xid", re.compile(r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]{7,14})[^)]{0,20}\): (?P<detail>\d{1,3})\b")),
    # nvidia-nvswitch, its SXid lines
    (
        "sxid",
        re.compile(
            r"nvidia-nvswitch\d{1,3}: SXid \(PCI:(?P<device>[0-9a-fA-F:.]{7,14})\): "
            r"(?P<detail>\d{4,6}, (?:[Nn]on-fatal|[Ff]atal).{0,100})"
        ),
    ),
    (
        "gpu-lost",
        re.compile(
            r"NVRM: (?:GPU )?(?:at )?(?:PCI:)?(?P<device>[0-9a-fA-F:.]{7,14}): (?P<detail>GPU has fallen off the bus)"
        ),
    ),
    (
        "gpu-init",
        re.compile(r"NVRM: (?:GPU )?(?P<device>[0-9a-fA-F:.]{7,14}): (?P<detail>RmInitAdapter failed.{0,40})"),
    ),
    ("gpu-init", re.compile(r"(?P<device>)NVRM: (?P<detail>The NVIDIA probe routine failed for \d{1,3} device)")),
    ("nvml-mismatch", re.compile(r"(?P<device>NVRM): (?P<detail>API mismatch: .{1,120})")),
    *FAULTS,
)

# Each pattern above and below needs one of these in its line; most lines of a kernel log have none.
_NEEDED = (
    " error: ", "mlx5_cmd_", "async reg mr", "Port module event", "PCIe slot", "handle_hca_cap", "firmware version: ",
    "Driver cmdif", "NVM image", "probe", "_one", "unknown parameter", "peermem: ", "nv_peer_mem: ", "able overflow",
    "ABLE OVERFLOW", "able Overflow", "NVRM: ", ": SXid ", "PCIe bandwidth",
    *NEEDED,
)  # fmt: skip

# drivers/pci/pci.c, __pcie_print_link_status
_BANDWIDTH = re.compile(
    r"(?P<driver>[\w-]{2,24}) (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?P<available>\d{1,4}\.\d{1,3}) Gb/s available PCIe bandwidth, "
    r"limited by (?P<speed>[\d.]{1,5}) GT/s PCIe x(?P<width>\d{1,2}) link at (?P<at>[0-9a-f:.]{7,14}) "
    r"\(capable of (?P<capable>\d{1,4}\.\d{1,3}) Gb/s"
)
# NVIDIA's kernel module at start-up, in three lines.
_LOST = re.compile(
    r"NVRM: The NVIDIA GPU (?P<device>[0-9a-fA-F:.]{7,16})[^\n]{0,60}\n"
    r"(?:[^\n]{0,200}\n){0,2}?[^\n]{0,120}NVRM: (?P<detail>fallen off the bus[^\n]{0,60})"
)
_BOOT_SECONDS = re.compile(r"\[\s{0,8}(?P<seconds>\d{1,9}\.\d{1,9})\]")
_REFUSED = re.compile(
    r"^(?:dmesg: |sudo: |journalctl: )?.{0,60}(?:Operation not permitted|Permission denied|a password is required|is not allowed to)"
    r"|^No journal files were (?:found|opened)",
)
_FILTER = re.compile(r"\b(?:[efz]?grep|awk|sed)\b|\s(?:-l|--level|-f|--facility)\b")
_SHAPE = re.compile(
    r"mlx5_core [0-9a-f]{4}:|^\[\s*\d+\.\d+\] |^\d{1,3},\d+,\d+,[-c];|^kern\s*:[a-z]+\s*: |\bQP \d+ error: |eighbou?r table overflow|async reg mr failed|\bkernel: |NVRM: |PCIe bandwidth"
    r"|\bAER: |NETDEV WATCHDOG: |ut of memory: Kill|EXT4-fs (?:error )?\(|I/O error, dev ",
    re.MULTILINE,
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    needed = [part for part in _NEEDED if part in block.output]
    for line in block.lines if needed else ():
        text = line[:1000]
        if not any(part in text for part in needed):
            continue
        if limited := _BANDWIDTH.search(text):
            facts.append(_bandwidth(block, text, limited))
            continue
        for kind, pattern in _EVENTS:
            if match := pattern.search(text):
                facts.append(_event(block, kind, text, match))
                break
    if "fallen off the bus and" in block.output:
        facts += [_event(block, "gpu-lost", match[0], match) for match in _LOST.finditer(block.output)]
    # A grep behind it exits 1 for no match; so does dmesg where the kernel or sudo refuses, and then says so.
    if not facts and (block.rc not in (0, None, 1) or looks_like(block, _REFUSED)):
        return Unknown(f"the kernel log was not read: {block.output.strip()[:200]}")
    if not block.output.strip() and runs(block, "dmesg") and not _FILTER.search(block.command):
        return Unknown("the kernel log is empty: somebody cleared it, or this container is not shown the kernel's")
    return facts


def _bandwidth(block: Block, line: str, match: re.Match[str]) -> PciBandwidth:
    return PciBandwidth(
        quote=block.quote(line.strip()),
        address=match["address"],
        driver=match["driver"],
        available_gbps=float(match["available"]),
        capable_gbps=float(match["capable"]),
        at=f"{match['at']} ({match['speed']} GT/s x{match['width']})",
    )


def _event(block: Block, kind: str, line: str, match: re.Match[str]) -> KernelEvent:
    stamp = _BOOT_SECONDS.match(line)
    return KernelEvent(
        quote=block.quote(line.strip()),
        kind=kind,
        device=match["device"] or "",
        detail=match["detail"].strip(),
        driver=match.groupdict().get("driver") or "",
        seconds=float(stamp["seconds"]) if stamp else Unknown("the line has no time since boot"),
    )


def _claims(block: Block) -> bool:
    return runs(block, "dmesg", "journalctl", "syslog", "messages", "kern.log") or looks_like(block, _SHAPE)


READER = Reader("kernel log", _claims, parse, events=True)
