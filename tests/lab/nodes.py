"""A lab: a controller namespace and real Linux nodes (systemd, sshd) on one bridge, apart from the machine's network.

Each node is a systemd-nspawn container on an overlay over the cached root file system, in its own network namespace.
Addresses repeat from lab to lab; names do not, so labs run side by side.
"""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.commands import run
from tests.lab.ledger import Ledger
from tests.lab.rootfs import layer, rootfs

BOOT_DEADLINE_S = 60.0
Preparation = Callable[[Path], None]

_WAIT_FOR_SSH = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[1])
for address in sys.argv[2:]:
    while True:
        try:
            with socket.create_connection((address, 22), timeout=1) as connection:
                if connection.recv(4) == b"SSH-":
                    break
        except OSError:
            pass
        if time.monotonic() > end:
            sys.exit(f"no sshd at {address}")
        time.sleep(0.05)
"""


@dataclass(frozen=True)
class Node:
    """One running node. `root` is its file system as seen from this machine."""

    name: str
    address: str
    namespace: str
    root: Path
    lab: "Lab"

    def ssh(self, command: str, *, user: str = "root", timeout_s: float = 30.0) -> str:
        """stdout of `command` in a fresh login, under the node's own locale."""
        return self.lab.run(
            *(
                "ssh",
                "-i",
                str(self.lab.key),
                "-o",
                f"UserKnownHostsFile={self.lab.known_hosts}",
                "-o",
                "BatchMode=yes",
            ),
            *("-o", "ConnectTimeout=5", "-o", "ControlPath=none", "-F", "none", f"{user}@{self.address}", command),
            timeout_s=timeout_s,
        )


class Lab:
    """Use as a context manager; `up` may be called more than once."""

    def __init__(self) -> None:
        self.name = f"lab-{secrets.token_hex(3)}"
        self.controller = f"{self.name}-ctl"
        self.nodes: dict[str, Node] = {}
        self._fabric = f"{self.name}-fab"
        self._ledger = Ledger.open(self.name)
        self.folder = self._ledger.folder
        self.key = self.folder / "key"
        self.known_hosts = self.folder / "home" / ".ssh" / "known_hosts"

    def __enter__(self) -> "Lab":
        try:
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
            self.known_hosts.parent.mkdir(parents=True, mode=0o700)
            self._namespace(self._fabric)
            run("ip", "-n", self._fabric, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self._fabric, "link", "set", "br0", "up")
            self._attach(self.controller, "10.77.0.1", "ctl")
        except BaseException:
            self._ledger.undo()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.undo()

    def up(
        self, names: Iterable[str], prepare: Preparation | None = None, *, packages: Sequence[str] = ()
    ) -> list[Node]:
        """Boot nodes and wait until sshd of each answers. `prepare` changes a node's root before it boots; it has these packages too."""
        below = [layer(packages), rootfs()] if packages else [rootfs()]
        booted = [self._boot(name, below, prepare) for name in names]
        addresses = [node.address for node in booted]
        wait = [sys.executable, "-c", _WAIT_FOR_SSH, str(BOOT_DEADLINE_S), *addresses]
        try:
            self.run(*wait, timeout_s=BOOT_DEADLINE_S + 10)
        except RuntimeError as error:
            consoles = "\n".join((self.folder / n.name / "console").read_text(errors="replace")[-2000:] for n in booted)
            raise RuntimeError(f"{error}\n{consoles}") from error
        return booted

    def run(self, *command: str, timeout_s: float = 60.0, environment: Mapping[str, str] | None = None) -> str:
        """stdout of `command` run in the controller's namespace; see `commands.run`."""
        return run(*self.command(*command, environment=environment), timeout_s=timeout_s)

    def start(self, *command: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """`command` in the controller's namespace, its streams piped, leader of its own group; it ends with the lab."""
        argv = self.command(*command, environment=environment)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._ledger.process(process.pid)
        return process

    def command(self, *command: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """argv that runs `command` in the controller's namespace."""
        return ["ip", "netns", "exec", self.controller, *self._with(environment), *command]

    def set_mtu(self, node: Node, own: int, port: int) -> None:
        """In bytes: of the node's interface, and of the bridge's port that it is plugged into."""
        run("ip", "-n", node.namespace, "link", "set", "eth0", "mtu", str(own))
        self.switch_port(node.name, port)

    def switch_port(self, name: str, mtu: int) -> None:
        """What the fabric carries to and from a node (`ctl`: the controller): longer packets are dropped without a word."""
        port = "ctl" if name == "ctl" else f"n{list(self.nodes).index(name) + 1}"
        run("ip", "-n", self._fabric, "link", "set", port, "mtu", str(mtu))

    def pids(self, namespace: str) -> list[int]:
        """Processes in one of this lab's namespaces."""
        return [int(pid) for pid in run("ip", "netns", "pids", namespace).split()]

    def _with(self, environment: Mapping[str, str] | None) -> Sequence[str]:
        """Own home, state and cache; no locale of whoever runs the tests, since ssh would carry it to the node."""
        home = self.known_hosts.parent.parent
        own = {
            "HOME": str(home),
            "XDG_STATE_HOME": f"{home}/state",
            "XDG_CACHE_HOME": f"{home}/cache",
            "PATH": os.environ["PATH"],
        }
        return ["env", "-i", *(f"{key}={value}" for key, value in (own | dict(environment or {})).items())]

    def _boot(self, name: str, below: Sequence[Path], prepare: Preparation | None) -> Node:
        number = len(self.nodes) + 1
        namespace, folder = f"{self.name}-{name}", self.folder / name
        address = f"10.77.1.{number}"
        self._attach(namespace, address, f"n{number}")
        folder.mkdir()
        self._ledger.mount(folder)
        run("mount", "-t", "tmpfs", "-o", "size=1g", namespace, str(folder))
        upper, work, root = (folder / part for part in ("upper", "work", "root"))
        for part in (upper, work, root):
            part.mkdir()
        self._ledger.mount(root)
        options = f"lowerdir={':'.join(map(str, below))},upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "-o", options, namespace, str(root))
        (root / "etc/hostname").write_text(name + "\n", encoding="utf-8")
        self._admit(root, address)
        # Else a login that comes while the manager of an earlier session is being stopped waits for that, a minute or more.
        (root / "etc/systemd/logind.conf.d").mkdir(parents=True, exist_ok=True)
        (root / "etc/systemd/logind.conf.d/lab.conf").write_text(
            "[Login]\nUserStopDelaySec=infinity\n", encoding="utf-8"
        )
        if prepare:
            prepare(root)
        self._start_container(name, namespace, folder)
        node = Node(name, address, namespace, root, self)
        self.nodes[name] = node
        return node

    def _admit(self, root: Path, address: str) -> None:
        """The controller's key is root's, and the controller knows the node's host key."""
        authorized = root / "root/.ssh/authorized_keys"
        authorized.parent.mkdir(mode=0o700, exist_ok=True)
        authorized.write_text(self.key.with_suffix(".pub").read_text(encoding="utf-8"), encoding="utf-8")
        host_key = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text(encoding="utf-8")
        with self.known_hosts.open("a", encoding="utf-8") as stream:
            stream.write(f"{address} {' '.join(host_key.split()[:2])}\n")

    def _start_container(self, name: str, namespace: str, folder: Path) -> None:
        command = (
            *(
                "systemd-nspawn",
                "--quiet",
                "--directory",
                str(folder / "root"),
                "--boot",
                "--register=no",
                "--keep-unit",
            ),
            *("--console=pipe", f"--network-namespace-path=/run/netns/{namespace}"),
            # Its interfaces are the node's own to configure.
            "--capability=CAP_NET_ADMIN",
            *(f"--machine={namespace}", f"--hostname={name}"),
        )
        with (folder / "console").open("w", encoding="utf-8") as console:
            container = subprocess.Popen(
                command,
                # /proc/sys/net is the node's own; the rest of /proc/sys is the machine's and stays read-only.
                env=dict(os.environ, SYSTEMD_NSPAWN_API_VFS_WRITABLE="network"),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._ledger.process(container.pid)

    def _namespace(self, name: str) -> None:
        self._ledger.namespace(name)
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def _attach(self, namespace: str, address: str, port: str) -> None:
        """A new namespace with eth0 at `address`, on the bridge."""
        self._namespace(namespace)
        run("ip", "-n", self._fabric, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "-n", self._fabric, "link", "set", port, "master", "br0", "up")
        run("ip", "-n", namespace, "addr", "add", f"{address}/16", "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Poll `condition`. Raises TimeoutError that names `what` after `deadline_s`."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {deadline_s:g} s")
        time.sleep(0.05)
