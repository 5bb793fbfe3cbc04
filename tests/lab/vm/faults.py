"""Ways to break a machine that is fit (see fabric.py), each with what it breaks and the finding that has to name it.

A fault changes what an operator's mistake, a foreign tool or a failed part would; `VirtualMachine.restore` undoes it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.vm.machine import Card, VirtualMachine
from tests.lab.vm.rdma import RXE

_DATA = Card.DATA.device
_HOUR_S = 3600.0
# Addresses of the data network that no machine has.
_STRANGERS = range(101, 151)


@dataclass(frozen=True)
class Fault:
    """breaks: what is then wrong, for whom. topic and subject: of the doctor's finding. present: asks the machine itself."""

    name: str
    breaks: str
    topic: str
    subject: str
    apply: Callable[[VirtualMachine], None]
    present: Callable[[VirtualMachine], bool]


def _shown_by(command: str) -> Callable[[VirtualMachine], bool]:
    """Whether a command of the guest succeeds."""

    def present(vm: VirtualMachine) -> bool:
        return vm.ssh(f"if {command}; then echo yes; else echo no; fi").split()[-1] == "yes"

    return present


def _small_socket_buffers(vm: VirtualMachine) -> None:
    vm.ssh("sysctl -w net.core.rmem_max=65536")


def _overflowing_neighbours(vm: VirtualMachine) -> None:
    key = "net.ipv4.neigh.default.gc_thresh"
    vm.ssh(f"sysctl -w {key}1=2 {key}2=4 {key}3=8")
    # Not permanent ones: those are exempt from the limit. Some are refused, which is the point.
    entry = f"neigh replace 10.78.0.$i lladdr 02:00:00:00:00:01 nud reachable dev {_DATA}"
    each = f"for i in $(seq {_STRANGERS.start} {_STRANGERS.stop - 1}); do echo {entry}; done"
    vm.ssh(f"{each} | ip -force -batch - 2>/dev/null; true")


def _short_reachable_time(vm: VirtualMachine) -> None:
    # Only the interface's own value: the default is read when an interface appears.
    vm.ssh(f"sysctl -w net.ipv4.neigh.{_DATA}.base_reachable_time_ms=100")


def _ghost_module_option(vm: VirtualMachine) -> None:
    vm.ssh("echo 'options mlx5_core log_sz_xrq=12' >/etc/modprobe.d/zz-tuning.conf && modprobe mlx5_core")


def _clock_hours_off(vm: VirtualMachine) -> None:
    vm.set_clock(-5 * _HOUR_S)


def _small_mtu(vm: VirtualMachine) -> None:
    vm.ssh(f"ip link set dev {_DATA} mtu 1500")


def _pfc_off(vm: VirtualMachine) -> None:
    vm.ssh(f"dcb pfc set dev {_DATA} prio-pfc all:off")


def _global_pause_on(vm: VirtualMachine) -> None:
    # PFC has to be off for the card to accept it.
    _pfc_off(vm)
    vm.ssh(f"ethtool -A {_DATA} rx on tx on")


def _cable_pulled(vm: VirtualMachine) -> None:
    vm.cable(Card.DATA, connected=False)


SMALL_SOCKET_BUFFERS = Fault(
    "small-socket-buffers",
    "bootstrap and the tcp transport cannot fill a long link",
    "sysctl.buffers",
    "net.core.rmem_max",
    _small_socket_buffers,
    _shown_by("[ $(sysctl -n net.core.rmem_max) = 65536 ]"),
)
OVERFLOWING_NEIGHBOURS = Fault(
    "overflowing-neighbours",
    "connections to further hosts fail at random",
    "neigh.table",
    "neighbour table",
    _overflowing_neighbours,
    _shown_by("dmesg | grep -q 'neighbor table overflow'"),
)
SHORT_REACHABLE_TIME = Fault(
    "short-reachable-time",
    "every neighbour is probed again all the time",
    "arp.base-reachable",
    f"net.ipv4.neigh.{_DATA}.base_reachable_time_ms",
    _short_reachable_time,
    _shown_by(f"[ $(sysctl -n net.ipv4.neigh.{_DATA}.base_reachable_time_ms) -lt 1000 ]"),
)
GHOST_MODULE_OPTION = Fault(
    "ghost-module-option",
    "nothing, and that is the harm: the tuning that was believed in never took place",
    "driver.options",
    "mlx5_core",
    _ghost_module_option,
    _shown_by("dmesg | grep -q 'mlx5_core: unknown parameter'"),
)
CLOCK_HOURS_OFF = Fault(
    "clock-hours-off",
    "deadlines, credentials and the order of log lines between nodes",
    "time.sync",
    "clock",
    _clock_hours_off,
    lambda vm: abs(vm.clock_offset()) > _HOUR_S,
)
SMALL_MTU = Fault(
    "small-mtu",
    "RoCE falls to a smaller path MTU; a peer that assumes the larger one gets no data",
    "mtu.netdev",
    _DATA,
    _small_mtu,
    _shown_by(f"[ $(cat /sys/class/net/{_DATA}/mtu) = 1500 ]"),
)
PFC_OFF = Fault(
    "pfc-off",
    "RoCE packets are dropped under load and latency jumps",
    "qos.pfc",
    _DATA,
    _pfc_off,
    _shown_by(f"! dcb pfc show dev {_DATA} prio-pfc | grep -q on"),
)
GLOBAL_PAUSE_ON = Fault(
    "global-pause-on",
    "one slow receiver stops every class of traffic on the link",
    "flow.global-pause",
    _DATA,
    _global_pause_on,
    _shown_by(f"ethtool -a {_DATA} | grep -q 'RX:.*on'"),
)
CABLE_PULLED = Fault(
    "cable-pulled",
    "the data network",
    "link.state",
    f"{RXE}/1",
    _cable_pulled,
    _shown_by(f"[ $(cat /sys/class/net/{_DATA}/carrier) = 0 ]"),
)

FAULTS = (
    SMALL_SOCKET_BUFFERS,
    OVERFLOWING_NEIGHBOURS,
    SHORT_REACHABLE_TIME,
    GHOST_MODULE_OPTION,
    CLOCK_HOURS_OFF,
    SMALL_MTU,
    PFC_OFF,
    GLOBAL_PAUSE_ON,
    CABLE_PULLED,
)
