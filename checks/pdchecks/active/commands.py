"""The commands of the active tests, as lines for a node's shell that print evidence blocks (`blocks.sh`)."""

from dataclasses import dataclass
from ipaddress import IPv4Address
from shlex import join, quote

from pdchecks.active.ends import End
from pdchecks.active.marker import marked

# IPv4 and ICMP headers without options: RFC 791, RFC 792.
_PING_HEADERS = 20 + 8
# ping(8)'s own default; every path carries it.
_SMALL_BYTES = 56
PINGS = 3
BANDWIDTH_S = 3
# Messages of that size measure the link, and not how many messages a second can be made.
_MESSAGE_BYTES = 65_536
# One queue pair does not fill a fast link.
_QUEUE_PAIRS = 4
ECHO_BYTES = 16 << 20
# Both ends are Python, which starts in a second or, on a node that does much else, in ten.
ECHO_S = 40
# What the caller puts in for the address that a server has said it listens on.
ADDRESS = "{address}"
LISTENING = "listening at "


@dataclass(frozen=True, slots=True)
class Line:
    """label: what the block is called. shell: what runs, without a line break. tool: without which it does not run.

    secret: its standard input is the test's own secret.
    """

    label: str
    shell: str
    tool: str
    secret: bool = False

    def at(self, address: str) -> "Line":
        """With the address that its server has said."""
        label, shell = (text.replace(ADDRESS, address) for text in (self.label, self.shell))
        return Line(label, shell, self.tool, self.secret)

    def script(self, secret: str = "") -> str:
        """secret: of hexadecimal digits."""
        given = f"given={secret}; " if self.secret else ""
        absent = f"block {quote(self.label)} 127 {quote(f'pdctl: {self.tool} is not installed')}"
        return f"if has {self.tool}; then {given}look_as {quote(self.label)} sh -c {quote(self.shell)}; given=; else {absent}; fi"


def pings(end: End, peer: str, to: IPv4Address) -> list[Line]:
    """A small packet, which tells silence from a path too narrow, and then packets of the size."""
    way = ["-I", end.netdev] if end.netdev else []
    small = ["ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", str(_SMALL_BYTES), *way, str(to)]
    size = str(end.size - _PING_HEADERS)
    large = ["ping", "-n", "-c", str(PINGS), "-i", "0.2", "-W", "2", "-M", "do", "-s", size, *way, str(to)]
    return [Line(marked(join(command), peer), join(command), "ping") for command in (small, large)]


def bandwidth(end: End, gid: int, port: int, traffic_class: int, tcp_port: int) -> str:
    """ib_write_bw without the addresses. port: of the RDMA device. tcp_port: over which the two ends agree."""
    options = f"-d {end.device} -i {port} -x {gid} -q {_QUEUE_PAIRS} -s {_MESSAGE_BYTES} -D {BANDWIDTH_S}"
    return f"ib_write_bw {options} --tclass={traffic_class} --report_gbits -F -p {tcp_port}"


# What perftest calls the address to bind to: --bind_source_ip, --source_ip before 4.5-0.20 (perftest_parameters.c).
_BIND = (
    "bind=; case $(ib_write_bw --help 2>&1) in *bind_source_ip*) bind=--bind_source_ip ;; *source_ip*) bind=--source_ip ;; esac; "
    '[ -n "$bind" ] || { echo "pdctl: this ib_write_bw cannot bind to one address"; exit 126; }; '
)


def serve_bandwidth(command: str, end: End, tcp_port: int, peer: str) -> Line:
    """Says on descriptor 5 that it listens; one that listens on every interface is ended at once."""
    own = "".join(f"{part:02X}" for part in reversed(end.address.packed))
    shell = (
        f"{_BIND}{command} $bind={end.address} 5>&- & pid=$!; tries=0; "
        "while kill -0 $pid 2>/dev/null && [ $tries -lt 50 ]; do tries=$((tries + 1)); "
        f"if grep -q ' {own}:{tcp_port:04X} [^ ]* 0A ' /proc/net/tcp; then echo '{LISTENING}{end.address}' >&5; break; fi; "
        f"if grep -qs ' 0*:{tcp_port:04X} [^ ]* 0A ' /proc/net/tcp /proc/net/tcp6; then kill -s KILL $pid; "
        'echo "pdctl: it would listen on every interface"; exit 126; fi; sleep 0.2; done; exec 5>&-; wait $pid'
    )
    return Line(marked(f"{command} --bind_source_ip={end.address}", peer, served=True), shell, "ib_write_bw")


def ask_bandwidth(command: str, peer: str, to: IPv4Address) -> Line:
    asked = f"{command} {to}"
    return Line(marked(asked, peer), asked, "ib_write_bw")


def serve_echo(end: End, peer: str) -> Line:
    command = f"pdctl kv echo --listen {end.address} --seconds {ECHO_S}"
    return Line(marked(command, peer, served=True), f"{command} --secret-stdin 2>&5", "pdctl", secret=True)


def ask_echo(peer: str) -> Line:
    command = f"pdctl kv echo --to {ADDRESS} --bytes {ECHO_BYTES} --seconds {ECHO_S}"
    return Line(marked(command, peer), f"{command} --secret-stdin", "pdctl", secret=True)
