"""Ways to break a machine that is fit (see fabric.py), each with what it breaks and the finding that has to name it.

A fault changes what an operator's mistake, a foreign tool or a failed part would; `VirtualMachine.restore` undoes it.
"""

from tests.lab.cure import Fault, shown_by
from tests.lab.vm.machine import Card, VirtualMachine
from tests.lab.vm.rdma import RXE

_DATA = Card.DATA.device
_HOUR_S = 3600.0
# Addresses of the data network that no machine has.
_STRANGERS = range(101, 151)


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
    # Where a time service runs, it has to have noticed; it asks every few seconds.
    noticed = "chronyc -n tracking | grep -Eq '^System time *: [0-9]{5}'"
    vm.ssh(
        f'systemctl -q is-active chrony || exit 0; timeout 120 sh -c "until {noticed}; do sleep 1; done"', timeout_s=180
    )


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


SMALL_SOCKET_BUFFERS = Fault[VirtualMachine](
    "small-socket-buffers",
    "bootstrap and the tcp transport cannot fill a long link",
    "sysctl.buffers",
    "net.core.rmem_max",
    _small_socket_buffers,
    shown_by("[ $(sysctl -n net.core.rmem_max) = 65536 ]"),
)
OVERFLOWING_NEIGHBOURS = Fault[VirtualMachine](
    "overflowing-neighbours",
    "connections to further hosts fail at random",
    "neigh.table",
    "neighbour table",
    _overflowing_neighbours,
    # The kernel's log remembers until the next boot.
    shown_by("[ $(sysctl -n net.ipv4.neigh.default.gc_thresh3) = 8 ] && dmesg | grep -q 'neighbor table overflow'"),
)
SHORT_REACHABLE_TIME = Fault[VirtualMachine](
    "short-reachable-time",
    "every neighbour is probed again all the time",
    "arp.base-reachable",
    f"net.ipv4.neigh.{_DATA}.base_reachable_time_ms",
    _short_reachable_time,
    shown_by(f"[ $(sysctl -n net.ipv4.neigh.{_DATA}.base_reachable_time_ms) -lt 1000 ]"),
)
GHOST_MODULE_OPTION = Fault[VirtualMachine](
    "ghost-module-option",
    "nothing, and that is the harm: the tuning that was believed in never took place",
    "driver.options",
    "mlx5_core",
    _ghost_module_option,
    shown_by("modprobe -c | grep -q log_sz_xrq && dmesg | grep -q 'mlx5_core: unknown parameter'"),
)
CLOCK_HOURS_OFF = Fault[VirtualMachine](
    "clock-hours-off",
    "deadlines, credentials and the order of log lines between nodes",
    "time.sync",
    "clock",
    _clock_hours_off,
    lambda vm: abs(vm.clock_offset()) > _HOUR_S,
)
SMALL_MTU = Fault[VirtualMachine](
    "small-mtu",
    "RoCE falls to a smaller path MTU; a peer that assumes the larger one gets no data",
    "mtu.netdev",
    _DATA,
    _small_mtu,
    shown_by(f"[ $(cat /sys/class/net/{_DATA}/mtu) = 1500 ]"),
    also=frozenset({("mtu.active", f"{RXE}/1")}),
)
PFC_OFF = Fault[VirtualMachine](
    "pfc-off",
    "RoCE packets are dropped under load and latency jumps",
    "qos.pfc",
    _DATA,
    _pfc_off,
    shown_by(f"! dcb pfc show dev {_DATA} prio-pfc | grep -q on"),
)
GLOBAL_PAUSE_ON = Fault[VirtualMachine](
    "global-pause-on",
    "one slow receiver stops every class of traffic on the link",
    "flow.global-pause",
    _DATA,
    _global_pause_on,
    shown_by(f"ethtool -a {_DATA} | grep -q 'RX:.*on'"),
    also=frozenset({("qos.pfc", _DATA)}),
)
CABLE_PULLED = Fault[VirtualMachine](
    "cable-pulled",
    "the data network",
    "link.state",
    f"{RXE}/1",
    _cable_pulled,
    shown_by(f"[ $(cat /sys/class/net/{_DATA}/carrier) = 0 ]"),
    by_hand=lambda vm: vm.cable(Card.DATA, connected=True),
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
