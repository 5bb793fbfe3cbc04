"""Where the files of other tools' captures belong: a sosreport, a Mellanox sysinfo-snapshot, a copy of sysfs and /etc.

Pure: from a file's path alone, as the capture has it. What is mapped to nothing holds nothing that a reader knows."""

import re
from dataclasses import dataclass

# sos names a file after its command: characters that no file name likes become one underscore (sos
# report/plugins/__init__.py, _mangle_command). Names of tools that have an underscore themselves stay whole.
_SOS = re.compile(r"(?P<root>.*?)/?sos_commands/[^/]{1,64}/(?P<name>[^/]{1,255})")
_SNAPSHOT = re.compile(r"(?P<root>.*?)/?commands_txt_output/[^/]{1,255}\.txt")
_SNAPSHOT_COUNTERS = re.compile(r"(?P<root>.*?)/?ethtool_S/ethtool_S_(?P<netdev>[^/]{1,64})")
_SNAPSHOT_CONFIG = re.compile(r"(?P<root>.*?)/?(?:firmware|mst\w{0,20})/(?:mlx|mst)config_\S{1,80}")
_SNAPSHOT_PAGE = re.compile(r"(?:.*/)?(?:sysinfo-snapshot|performance-tuning-analyze|sr_iov)\S{0,120}\.html")
_UNDERSCORED = ("ibv_devinfo", "mlnx_qos", "show_gids", "cma_roce_tos", "cma_roce_mode", "ib_write_bw")
_TOOLS = re.compile(
    r"(?:ibv_devinfo|ibstat|ibstatus|perfquery|ethtool|ip|devlink|lspci|lsmod|modinfo|modprobe|sysctl|dmesg|journalctl|"
    r"nvidia-smi|locale|localectl|timedatectl|chronyc|systemctl|rdma|mlnx_qos|show_gids|mlxconfig|mstconfig|flint|"
    r"mstflint|dcb|ulimit|ibdev2netdev|mlxfwmanager|cma_roce_tos)\b"
)
# Files that are copied whole, and the command that would print them.
_COPIED = (
    (re.compile(r"etc/(?:os-release|default/locale|locale\.conf|sysconfig/i18n)"), "cat /{path}"),
    (re.compile(r"usr/lib/os-release"), "cat /etc/os-release"),
    (re.compile(r"etc/(?:yum\.conf|dnf/dnf\.conf|yum\.repos\.d/[^/]{1,120}\.repo)"), "cat /{path}"),
    (re.compile(r"(?:etc|usr/lib|lib)/modprobe\.d/[^/]{1,120}\.conf"), "grep ^options /{path} (modprobe.d)"),
    (re.compile(r"proc/meminfo"), "cat /proc/meminfo"),
    (re.compile(r"proc/self/limits"), "cat /proc/self/limits"),
    (re.compile(r"proc/sys/[\w./-]{3,160}"), "cat /{path}"),
    (re.compile(r"var/log/(?:messages|syslog|kern\.log|dmesg)"), "cat /{path}"),
)
_SYSFS = re.compile(
    r"(?:(?P<root>.*?)/?sys/)?(?P<path>class/infiniband/.{3,200}|class/net/.{3,200}|kernel/mm/memory_peers/.{3,120}"
    r"|bus/pci/devices/[0-9a-f:.]{7,14}/(?:current|max)_link_(?:speed|width))"
)
# A copy of /sys/class/infiniband alone, without the folders above it.
_PORTS = re.compile(
    r"(?P<root>.*?)/?(?P<path>[\w.-]{1,64}/(?:ports/\d{1,3}/(?:(?:hw_)?counters/\w{2,60}|gids/\d{1,4}|"
    r"gid_attrs/(?:types|ndevs)/\d{1,4}|state|phys_state|rate|link_layer|lid)|fw_ver|hca_type|board_id))"
)
_HOST = re.compile(
    r"(?:sosreport|sosreport\d?)-(?P<sos>[A-Za-z0-9.-]{1,64}?)(?:-\d{5,12})?(?:-\d{4}-\d{2}-\d{2}-\w{4,10})?"
    r"|sysinfo-snapshot-v?[\d.]{1,16}-(?P<snapshot>[A-Za-z0-9.-]{1,64}?)-\d{8}-\d{2,6}"
)
# Counters of a network interface that no check reads stand by hundreds in /sys/class/net.
_NET = re.compile(r"class/net/[^/]{1,64}/(?:mtu|speed|qos/\w{1,20}|ecn/roce_(?:np|rp)/(?:enable/[0-7]|cnp_\w{2,12}))")


@dataclass(frozen=True, slots=True)
class Place:
    """root: the folder that the capture lies in. command: as which the content is read.

    first_line: the content's own first line names the command. sysfs: the content is one value of this file.
    """

    root: str
    command: str = ""
    first_line: bool = False
    sysfs: str = ""


def place(path: str) -> Place | None:
    """Of a file of a capture; None of one that is no part of any, or that no reader would know."""
    if match := _SOS.fullmatch(path):
        command = _unmangled(match["name"])
        return Place(match["root"], command) if _TOOLS.match(command) else None
    if match := _SNAPSHOT.fullmatch(path):
        return Place(match["root"], first_line=True)
    if match := _SNAPSHOT_COUNTERS.fullmatch(path):
        return Place(match["root"], f"ethtool -S {match['netdev']}")
    if match := _SYSFS.fullmatch(path):
        inner = match["path"]
        wanted = not inner.startswith("class/net/") or _NET.fullmatch(inner)
        return Place(match["root"] or "", sysfs=f"/sys/{inner}") if wanted else None
    if match := _PORTS.fullmatch(path):
        return Place(match["root"], sysfs=f"/sys/class/infiniband/{match['path']}")
    for begin in (0, *(match.end() for match in re.finditer("/", path))):
        for pattern, command in _COPIED:
            if pattern.fullmatch(path, begin):
                return Place(path[:begin].rstrip("/"), command.format(path=path[begin:]))
    return None


def host(root: str) -> str:
    """The node's name: as the capture's folder says it, or the last folder's own name."""
    last = root.rstrip("/").rsplit("/", 1)[-1]
    match = _HOST.fullmatch(last)
    return (match["sos"] or match["snapshot"]) if match else last


def _unmangled(name: str) -> str:
    for tool in _UNDERSCORED:
        if name == tool or name.startswith(f"{tool}_"):
            return f"{tool}{name[len(tool) :].replace('_', ' ')}"
    words = name.replace("_", " ")
    # `ethtool -S eth_lan` has lost its underscore for good; what follows the option is the interface.
    if match := re.fullmatch(r"ethtool (-\w) (\S{1,32}(?: \S{1,32})?)", words):
        return f"ethtool {match[1]} {match[2].replace(' ', '_')}"
    return words
