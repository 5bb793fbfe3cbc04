"""One virtual machine of a `VirtualLab`: a real Debian kernel of its own, whose disk and memory go back to a snapshot.

It boots from its own disk, so kernel command line, initramfs and module options survive a reboot, or do not, as on a node.
"""

import hashlib
import os
import subprocess
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.commands import run
from tests.lab.nodes import wait_until
from tests.lab.vm import qmp
from tests.lab.vm.accelerator import QEMU
from tests.lab.vm.image import Image

if TYPE_CHECKING:
    from tests.lab.vm.lab import VirtualLab

# Emulated and on a loaded machine a boot was seen to take four minutes.
BOOT_DEADLINE_S = 420.0
CLEAN = "clean"
_MEMORY_MIB = 1024
_PROCESSORS = 2


class Card(Enum):
    """A network card. The value is the fourth byte of its MAC; guest/usr/local/sbin/lab-card knows both."""

    MANAGEMENT = 0x4D
    DATA = 0x44

    @property
    def device(self) -> str:
        """Its name in the guest."""
        return "eth0" if self is Card.MANAGEMENT else "eth1"

    def mac(self, number: int) -> str:
        return f"52:54:00:{self.value:02x}:00:{number:02x}"

    def tap(self, number: int) -> str:
        return f"{self.name[0].lower()}{number}"


class VirtualMachine:
    """`number` is 1 to 254. Used like a `tests.lab.nodes.Node`; made by `VirtualLab.boot`."""

    def __init__(self, lab: "VirtualLab", image: Image, number: int, accelerator: Sequence[str], data_mtu: int) -> None:
        self.lab, self.image, self.number = lab, image, number
        self.name = f"v{number}"
        self.address = f"10.77.2.{number}"
        self.data_address = f"10.78.0.{number}"
        self.console = lab.folder / f"{self.name}.console"
        self._accelerator = tuple(accelerator)
        self._data_mtu = data_mtu
        self._disk = lab.disks / f"{self.name}.qcow2"
        self._monitor = lab.folder / f"{self.name}.qmp"
        self._master = lab.folder / f"{self.name}.ssh"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """QEMU's. Raises RuntimeError when the machine is off."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is off")
        return self._process.pid

    def power_on(self) -> None:
        """Start QEMU; `wait` waits. The first machine of this number and image boots, later ones wake from its snapshot."""
        warm = self._warm_disk()
        if warm.exists():
            run("cp", "--reflink=auto", "--sparse=always", str(warm), str(self._disk))
            self._launch("-loadvm", CLEAN)
        else:
            backing = ("-b", str(self.image.disk), "-F", "raw")
            run("qemu-img", "create", "-q", "-f", "qcow2", *backing, str(self._disk))
            self._launch()

    def wait(self) -> None:
        """Until the machine has come up and a snapshot named `clean` of that state exists."""
        self._wait_for_ssh()
        warm = self._warm_disk()
        if warm.exists():
            self.set_clock()
            return
        # A login is possible before the last unit is up, and a snapshot of half a boot is no clean start.
        self.ssh("systemctl is-system-running --wait || systemctl --failed", timeout_s=BOOT_DEADLINE_S)
        self.snapshot()
        # Paused, so that the copy is of one moment.
        qmp.execute(self._monitor, "stop")
        copy = warm.with_suffix(f".{os.getpid()}")
        run("cp", "--reflink=auto", "--sparse=always", str(self._disk), str(copy))
        copy.rename(warm)
        qmp.execute(self._monitor, "cont")

    def ssh(self, command: str, *, timeout_s: float = 120.0) -> str:
        """stdout of `command` run by root's shell. Raises RuntimeError, with what it printed, when it fails."""
        return self.lab.run("ssh", *self._ssh_options(), f"root@{self.address}", command, timeout_s=timeout_s)

    def start(self, command: str) -> subprocess.Popen[str]:
        """`command` run by root's shell meanwhile; ended with the lab at the latest."""
        return self.lab.start("ssh", *self._ssh_options(), f"root@{self.address}", command)

    def push(self, source: Path, target: str) -> None:
        """Copy a file of this machine to the path `target` of the guest."""
        self.lab.run("scp", "-q", *self._ssh_options(), str(source), f"root@{self.address}:{target}", timeout_s=120)

    def snapshot(self, name: str = CLEAN) -> None:
        """Remember memory and disk. Replaces a snapshot of that name."""
        qmp.human(self._monitor, f"savevm {name}")

    def restore(self, name: str = CLEAN) -> None:
        """Go back to a snapshot, with every cable in, and with the clock of now instead of the snapshot's."""
        self._forget_connection()
        for card in Card:
            self.cable(card, connected=True)
        qmp.human(self._monitor, f"loadvm {name}")
        self._wait_for_ssh()
        self.set_clock()

    def reboot(self) -> None:
        """A clean reboot; returns when the new boot answers. An initramfs or boot option made since takes effect."""
        before = self._boot_id()
        self.ssh("systemd-run --quiet --on-active=1 systemctl reboot")
        self._await_boot_after(before)

    def power_cycle(self) -> None:
        """Reset without warning: what was not synced to disk is lost, as by a power cut."""
        before = self._boot_id()
        qmp.execute(self._monitor, "system_reset")
        self._await_boot_after(before)

    def set_clock(self, offset_s: float = 0.0) -> None:
        """Set the guest's clock to this machine's time plus `offset_s`."""
        self.ssh(f"date --utc --set=@{time.time() + offset_s:.3f}")

    def clock_offset(self) -> float:
        """Seconds by which the guest's clock is ahead, within half the time that asking took."""
        asked = time.time()
        there = float(self.ssh("date +%s.%N"))
        return there - (asked + time.time()) / 2

    def cable(self, card: Card, *, connected: bool) -> None:
        """Pull or plug a network cable: the guest sees its carrier go or come."""
        qmp.execute(self._monitor, "set_link", name=card.name.lower(), up=connected)
        if card is Card.MANAGEMENT and not connected:
            self._forget_connection()

    def stop(self) -> None:
        """End the machine at once."""
        self._forget_connection()
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def _launch(self, *extra: str) -> None:
        cards = [argument for card in Card for argument in self._card(card)]
        command = (
            *("nice", "-n", "10", QEMU, "-nodefaults", "-display", "none", *self._accelerator),
            *("-smp", str(_PROCESSORS), "-m", str(_MEMORY_MIB), "-kernel", str(self.image.kernel)),
            *("-serial", f"file:{self.console}", "-qmp", f"unix:{self._monitor},server=on,wait=off"),
            # The disk is thrown away with the lab: nothing is gained by flushing it.
            *("-drive", f"file={self._disk},if=virtio,cache=unsafe"),
            *("-object", "rng-random,filename=/dev/urandom,id=random", "-device", "virtio-rng-pci,rng=random"),
            *cards,
            *extra,
        )
        self._process = self.lab.start_in_fabric(command, self.lab.folder / f"{self.name}.log")

    def _card(self, card: Card) -> Sequence[str]:
        name = card.name.lower()
        mtu = f",host_mtu={self._data_mtu}" if card is Card.DATA else ""
        return (
            *("-netdev", f"tap,id=tap-{name},ifname={card.tap(self.number)},script=no,downscript=no"),
            # No boot ROM: nothing boots from the network.
            *("-device", f"virtio-net-pci,id={name},netdev=tap-{name},mac={card.mac(self.number)},romfile={mtu}"),
        )

    def _warm_disk(self) -> Path:
        """Where the first boot's snapshot is kept. It fits only the same QEMU, accelerator and cards."""
        version = run(QEMU, "--version").split("\n")[0]
        fixed = (
            version,
            *self._accelerator,
            str(self._data_mtu),
            str(_MEMORY_MIB),
            str(_PROCESSORS),
            Path(__file__).read_text("utf-8"),
        )
        return self.image.folder / f"{self.name}-{hashlib.sha256(repr(fixed).encode()).hexdigest()[:12]}.qcow2"

    def _ssh_options(self) -> Sequence[str]:
        # A handshake costs seconds of an emulated processor, least with this key exchange; so one connection is shared.
        return (
            *("-F", "none", "-i", str(self.image.key), "-o", f"UserKnownHostsFile={self.lab.known_hosts}"),
            *("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10"),
            *("-o", "KexAlgorithms=curve25519-sha256"),
            *("-o", "ControlMaster=auto", "-o", f"ControlPath={self._master}", "-o", "ControlPersist=yes"),
        )

    def _forget_connection(self) -> None:
        if self._master.exists():
            self.lab.run("ssh", *self._ssh_options(), "-O", "exit", f"root@{self.address}")

    def _wait_for_ssh(self) -> None:
        try:
            wait_until(self._answers, BOOT_DEADLINE_S, f"{self.name} answers ssh")
        except TimeoutError as error:
            said = "".join(
                path.read_text("utf-8", errors="replace")[-3000:]
                for path in (self.console, self.lab.folder / f"{self.name}.log")
                if path.exists()
            )
            raise TimeoutError(f"{error}\n{said}") from error

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            log = (self.lab.folder / f"{self.name}.log").read_text("utf-8", errors="replace")
            raise RuntimeError(f"QEMU of {self.name} ended with {self._process.returncode}\n{log}")
        try:
            self.ssh("true", timeout_s=60)
        except (RuntimeError, subprocess.TimeoutExpired):
            return False
        return True

    def _boot_id(self) -> str:
        return self.ssh("cat /proc/sys/kernel/random/boot_id")

    def _await_boot_after(self, before: str) -> None:
        def new_boot() -> bool:
            self._forget_connection()
            try:
                return self._answers() and self._boot_id() != before
            except RuntimeError:
                # It answered a moment ago and went down since.
                return False

        wait_until(new_boot, BOOT_DEADLINE_S, f"{self.name} comes back from its reboot")
        self.ssh("systemctl is-system-running --wait || systemctl --failed", timeout_s=BOOT_DEADLINE_S)
