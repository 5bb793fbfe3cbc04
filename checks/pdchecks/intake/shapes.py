"""By what each tool's output is known where nobody says which command printed it. This list is the table of contents."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """command: as which the output is read; `{name}` is the head's group of that name. head: how a line begins that only
    this output has. body: how its other lines begin; a line of neither kind ends it. An empty line ends nothing.
    """

    command: str
    head: re.Pattern[str]
    body: re.Pattern[str]


def _shape(command: str, head: str, body: str) -> Shape:
    return Shape(command, re.compile(head), re.compile(body))


_INDENTED = r"\s"
_NETDEV = r"(?P<netdev>[\w.@-]{1,32})"

SHAPES: tuple[Shape, ...] = (
    _shape("ibstat", r"\s*CA:? '[^']{1,64}'", r"\s*(?:CA|Port|[A-Z][A-Za-z ]{1,30}:|Number of)"),
    _shape("ibstatus", r"Infiniband device '", _INDENTED),
    _shape("ibv_devinfo -v", r"hca_id:\s", _INDENTED),
    _shape("show_gids", r"DEV\s+PORT\s+INDEX\s+GID", r"-{3}|n_gids_found|\S{1,64}\s+\d{1,3}\s+\d{1,4}\s"),
    _shape("ibdev2netdev", r"\S{1,64} port \d{1,3} ==> \S", r"$^"),
    _shape("rdma statistic show", r"link \S{1,64}/\d{1,3} \w{3,60} \d", r"\s{0,40}\w{3,60} \d"),
    _shape(
        "rdma link show", r"(?:link \S{1,64}/\d{1,3} (?:state|subnet)|\d{1,3}/\d{1,3}: \S{1,64}/\d{1,3}: state)", r"$^"
    ),
    _shape("rdma dev show", r"\d{1,5}: [\w.-]{1,64}: node_type ", r"$^"),
    _shape("ibv_devices", r"\s+device\s+node GUID\s*$", r"\s"),
    _shape(
        "arp -an",
        r"(?:Address\s+HWtype\s+HWaddress|\S{1,100} \([0-9.]{7,15}\) at (?:<incomplete>|[0-9a-f:]{11,60}))",
        r"[0-9.]{7,15}\s",
    ),
    _shape("lldpctl", r"LLDP neighbors:|Interface:\s{1,8}\S{1,32}, via: LLDP", r"\s|-{3,}|Interface:"),
    _shape("lldpctl -f keyvalue", r"lldp\.[^.=\s]{1,32}\.(?:via|rid|chassis)", r"lldp\."),
    _shape("ofed_info -s", r"(?:MLNX_OFED_LINUX|OFED-internal|DOCA)-\d\S{2,60}:?\s*$", r"$^"),
    _shape("mlxlink", r"Operational Info\s*$", r"\S[\w ().-]{1,50}(?:\[\w{1,8}\])?\s*: |[A-Z][A-Za-z ]{3,40}\s*$|-{4}"),
    _shape("perfquery", r"# Port (?:extended )?counters", r"[A-Za-z0-9]{3,40}:\.{2}"),
    _shape("ethtool -i (interface not named)", r"driver: \S", r"[a-z-]{3,30}:"),
    _shape("ethtool -S (interface not named)", r"NIC statistics:", r"\s+\S.{0,80}: \d"),
    # A part of the counters: what is absent was maybe filtered out.
    _shape(
        "ethtool -S (interface not named) | grep (pasted)",
        r"\s{0,12}(?:[rt]x_prio[0-7]_\w{3,40}|[rt]x_\w{2,40}_phy|rx_out_of_buffer|link_down_events_phy|rx_vport_rdma_\w{3,40}): \d",
        r"\s{0,12}\w{3,60}: \d",
    ),
    _shape("ethtool -a {netdev}", rf"Pause parameters for {_NETDEV}:", r"(?:Autonegotiate|RX|TX)\b"),
    _shape("ethtool -k {netdev}", rf"Features for {_NETDEV}:", r"\s*[a-z0-9-]{3,60}: (?:on|off)"),
    _shape("ethtool -g {netdev}", rf"Ring parameters for {_NETDEV}:", r"Pre-set|Current|(?:RX|TX|CQE|HDS)[\w ]{0,20}:"),
    _shape("ethtool {netdev}", rf"Settings for {_NETDEV}:", _INDENTED),
    _shape(
        "mlnx_qos",
        r"(?:DCBX mode: |Priority trust state: |PFC configuration:)",
        r"\s|dscp2prio|default priority|Receive buffer|Cable len|Buffers|PFC conf|Priority trust|DCBX|tc: |prio:|\tpriority",
    ),
    _shape(
        "mlnx_qos",
        r"\*{3,} WARNING: lldpad",
        r"\s|\*{3}|DCBX|Priority trust|dscp2prio|PFC conf|Receive|Buffers|Cable|tc: |prio:",
    ),
    _shape("dcb buffer show dev (interface not named)", r"prio-buffer \d", r"buffer-size|total-size"),
    _shape("dcb dcbx show dev (interface not named)", r"(?:host|lld-managed) (?:ieee|cee)\b", r"$^"),
    _shape("dcb pfc show dev (interface not named)", r"pfc-cap \d", r"prio-|requests|indications"),
    _shape("dcb apptrust show dev (interface not named)", r"order: (?:dscp|pcp|port|ethtype)\b", r"$^"),
    _shape(
        "dcb app show dev (interface not named)", r"dscp-prio \S", r"(?:eth|stream|dgram|port|dscp|pcp)\S{0,8}-prio"
    ),
    _shape("ip addr show", r"\d{1,6}: [\w.@:-]{1,40}: <[A-Z0-9_,-]{0,200}> mtu \d", r"\s"),
    _shape("ip -o addr show", r"\d{1,6}: [\w.@-]{1,32}\s+inet6? [0-9a-fA-F.:]{2,45}/", r"$^"),
    _shape(
        "ip -br addr show",
        r"[\w.@-]{1,64}\s+(?:UP|DOWN|UNKNOWN)\s+(?:[0-9a-fA-F.:]{2,45}/\d{1,3}|[0-9a-f:]{11,60} <[A-Z_,-]{2,200}>)",
        r"[\w.@-]{1,64}\s+(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)\s",
    ),
    _shape("ifconfig", r"[\w.:-]{1,40}(?:: flags=\d+<|\s+Link encap:)", _INDENTED),
    _shape(
        "ip neigh show",
        r"[0-9A-Fa-f.:]{3,45} dev [\w.@-]{1,32} .{0,200}(?:REACHABLE|STALE|FAILED|INCOMPLETE|DELAY|PROBE|PERMANENT|NOARP)",
        r"$^",
    ),
    _shape(
        "ip route show",
        r"(?:default|unreachable [0-9a-f]|blackhole [0-9a-f]|[0-9][0-9.]{6,14}(?:/\d{1,2})?) (?:via|dev) \S",
        r"\s",
    ),
    _shape("lspci -vvv", r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S", _INDENTED),
    _shape(
        "ip route get {to}",
        r"(?P<to>[0-9A-Fa-f.:]{3,45}) (?:from \S+ )?(?:via \S+ )?dev \S{1,32} .{0,80}(?:src|uid) ",
        r"\s",
    ),
    _shape("uname -srm", r"Linux (?:\S{1,64} )?\d{1,2}\.\d{1,4}\.\d\S{0,80}(?: |$)", r"$^"),
    _shape("dpkg -l", r"Desired=Unknown/Install/Remove", r"\||\+\+|[a-z]{2} "),
    _shape(
        "grep -nH = /etc/sysctl.d/*.conf",
        r"/(?:etc|run|usr/lib|usr/local/lib)/sysctl\.(?:d/[^\s:]{1,100}\.)?conf:\d{1,6}:",
        r"grep: ",
    ),
    _shape("ps -ef", r"(?:UID|USER)\s+PID\s", r"[a-z_][\w.-]{0,31}\+?\s+\d{1,9}\s"),
    _shape("lsmod", r"Module\s+Size\s+Used by", r"\w{2,60}\s+\d{3,12}\s+-?\d"),
    _shape("modprobe -c", r"options [\w-]{2,60} [\w.]{2,60}=", r"options "),
    _shape("sysctl -a", r"(?:net|vm|kernel|fs|dev)\.[\w./-]{2,120} ?= ?\S", r"sysctl: "),
    _shape("grep -H . /proc/sys/", r"/proc/sys/\S{3,160}:", r"grep: "),
    _shape("grep -H '' /sys/class/infiniband/*", r"\S{0,80}/sys/class/infiniband/[^\s:]{3,200}:", r"grep: |cat: "),
    _shape("grep -H '' /sys/class/net/", r"\S{0,80}/sys/class/net/[^\s:]{3,200}:", r"grep: |cat: "),
    _shape("grep -H '' /sys/kernel/debug/mlx5/*/cc_params/*", r"/sys/kernel/debug/mlx5/\S{3,120}:", r"grep: "),
    _shape(
        "grep -H '' /sys/bus/pci/devices/*/*_link_*",
        r"/sys/bus/pci/devices/[^\s:]{3,40}[^\s]{0,20}_link_(?:speed|width):",
        r"$^",
    ),
    _shape("grep -H '' /sys/kernel/mm/memory_peers/*/*", r"/sys/kernel/mm/memory_peers/\S{3,80}:", r"$^"),
    _shape("head /sys/class/infiniband/*", r"==> \S{0,80}/sys/class/infiniband/\S{3,200} <==", r"==> |\S"),
    _shape("locale", r"LANG=\S{0,40}\s*$", r"(?:LANGUAGE|LC_[A-Z]{3,20})="),
    _shape(
        "locale -a",
        r"(?:POSIX|C\.utf8|C\.UTF-8)\s*$",
        r"[A-Za-z]{1,12}(?:_[A-Z]{2})?(?:\.[\w-]{1,20})?(?:@\w{1,20})?\s*$",
    ),
    _shape("cat /proc/self/limits", r"Limit\s{5,}Soft Limit", r"Max "),
    _shape("ulimit -a", r"(?:core file size|real-time non-blocking time)\s", r"[a-z][a-z -]{3,40}\s+\("),
    _shape("ulimit -a", r"max locked memory\s+\(", r"[a-z][a-z -]{3,40}\s+\("),
    _shape("cat /proc/meminfo", r"(?:MemTotal|HugePages_Total):\s", r"[A-Za-z_()0-9]{3,30}:\s+\d"),
    _shape("cat /etc/os-release", r"(?:PRETTY_NAME|NAME|VERSION_ID|VERSION)=", r"[A-Z_]{2,40}="),
    _shape(
        "env",
        r"(?:export )?(?:NCCL|UCX|MC|NVSHMEM|CUDA|VLLM|NIXL|MOONCAKE)_[A-Z0-9_]{2,60}=",
        r"(?:export )?[A-Z][A-Z0-9_]{1,60}=",
    ),
    _shape("timedatectl show", r"NTPSynchronized=", r"[A-Z][A-Za-z]{2,30}="),
    _shape("timedatectl", r"\s*Local time: ", r"\s*[A-Z][A-Za-z ]{3,40}: "),
    _shape("chronyc tracking", r"Reference ID\s+: ", r"[A-Z][A-Za-z ()]{3,30}: "),
    _shape("systemctl show", r"Id=[\w@.\\-]{2,120}\.\w", r"[A-Z][A-Za-z]{2,40}="),
    _shape(
        "nvidia-smi topo -m",
        r"(?:\s+(?:\x1b\S*)?GPU0\s|GPU0\s+(?:GPU1|NIC0|mlx5_\d|CPU Affinity)\s)",
        r"(?:GPU|NIC|mlx5|Legend)\S*|\s",
    ),
    _shape("nvidia-smi -q", r"=+NVSMI LOG=+", r"\s|[A-Z][A-Za-z ]{3,40}\s+: |GPU [0-9A-F]{8}:"),
    _shape("nvidia-smi -L", r"GPU \d{1,3}: .{3,80}\(UUID: ", _INDENTED),
    _shape(
        "nvidia-smi",
        r"\|\s{1,2}NVIDIA-SMI \d|\|\s{1,5}\d{1,3}\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?\d{1,10}\s+[CGM+]{1,5}\s.*MiB\s*\|",
        r"[|+]",
    ),
    _shape(
        "nvidia-smi --query-gpu=(by the header) --format=csv",
        r"(?:index|uuid|gpu_uuid|name|gpu_name|timestamp|pci\.bus_id|gpu_bus_id|pid|memory\.\w{3,10}|driver_version)(?: \[\w{1,8}\])?, ",
        r"[^,]{0,200}, ",
    ),
    _shape(
        "nvidia-smi",
        r"(?:Failed to initialize NVML|Field \"\S{1,60}\" is not a valid field|No devices were found)",
        r"$^",
    ),
    _shape("devlink dev info", r"pci/[0-9a-f:.]{7,16}:", r"\s|auxiliary/"),
    _shape(
        "mlxfwmanager --query",
        r"Querying \S{3,12} devices firmware",
        r"\s|-|Device|Part|Description|PSID|Versions|Status",
    ),
    _shape("mlxconfig query", r"Device #\d{1,3}:", r"\s|-|\*|RO\s|Device|Name|Description|Configurations|The '\*'"),
    _shape("flint query", r"Image type:\s", r"[A-Z][A-Za-z() ]{2,30}:\s|\s"),
    _shape(
        "perftest",
        r"\s+(?:RDMA_Write|RDMA_Read|Send|Atomic|Raw_Ethernet)\S{0,20}.{0,30}(?:BW|Latency) Test",
        r"\s|-{5}|#|\S{0,20} ?address:|Completion|Failed|Couldn|Unable|Conflicting|ethernet_read|Please|WARNING|\d",
    ),
    _shape("ping", r"PING \S{1,80} .{0,60}bytes of data", r"(?:\d{1,5} bytes|From|ping:|---|\d{1,8} packets|rtt)"),
)

SHORTEST_HEAD = 5
"""No output begins, and no line of a log, with less characters in its line."""
ANY_HEAD = re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", shape.head.pattern) for shape in SHAPES))

# A line of a log: what begins so goes on until another output begins.
LOG = re.compile(
    r"\[\s{0,8}\d{1,9}\.\d{3,9}\]"  # dmesg, UCX
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d"  # dmesg -T
    r"|\d{1,3},\d{1,12},\d{1,18},[-c];|(?:kern|user|daemon|syslog)\s{0,4}:[a-z]{3,6}\s{0,4}: "  # /dev/kmsg, dmesg -x
    r"|\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\]"  # NVIDIA's fabric manager
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d \d{4} \w{2,8}\.\w{3,7} "  # logread of OpenWrt
    r"|[A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d "  # syslog, journalctl
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"  # ISO: journalctl -o short-iso, Python, NIXL
    r"|[IWEF]\d{4,8} \d\d:\d\d:\d\d"  # glog: Mooncake
    r"|\S{1,64}:\d{1,8}:\d{1,8} \[\d{1,3}\] (?:NCCL|misc|transport|\S{1,60}\.cc?)"  # NCCL
    r"|(?:\(\w{1,40} pid=\d{1,8}\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d"  # vLLM
    r"|<\d{1,3}>|Traceback \(most recent call last\):|fatal: \[|local address:.{0,10}LID|ibv_modify_qp|mlx5: "
)
LOG_COMMAND = "log"


def of_json(value: Any) -> str | None:
    """The command that prints such a JSON value."""
    if isinstance(value, dict):
        known = (
            ("info", "devlink -j dev info"),
            ("lldp", "lldpcli -f json show neighbors"),
            ("prio_pfc", "dcb -j pfc show dev (interface not named)"),
        )
        named = next((command for key, command in known if key in value), None)
        return named or next((command for key, command in _DCB if key in value), None)
    rows = value if isinstance(value, Sequence) and not isinstance(value, str) else []
    first = next((row for row in rows if isinstance(row, Mapping) and row), None)
    if first is None:
        return None
    return next((command for keys, command in _ROWS if keys <= first.keys()), None)


_DCB = (
    ("dscp_prio", "dcb -j app show dev (interface not named)"),
    ("prio_buffer", "dcb -j buffer show dev (interface not named)"),
    ("order", "dcb -j apptrust show dev (interface not named)"),
    *((key, "dcb -j dcbx show dev (interface not named)") for key in ("host", "lld_managed", "ieee", "cee")),
)
_ROWS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"ifname", "port", "physical_state"}), "rdma -j link show"),
    (frozenset({"ifname", "port"}), "rdma -j statistic show"),
    (frozenset({"ifname", "node_type"}), "rdma -j dev show"),
    (frozenset({"ifname", "addr_info"}), "ip -j addr show"),
    (frozenset({"ifname", "mtu"}), "ip -j link show"),
    (frozenset({"dst", "dev", "state"}), "ip -j neigh show"),
    (frozenset({"dst", "lladdr"}), "ip -j neigh show"),
    (frozenset({"dst", "dev", "uid"}), "ip -j route get"),
    (frozenset({"dst", "dev"}), "ip -j route show"),
)
