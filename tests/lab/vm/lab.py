"""A lab whose nodes may be virtual machines: a `Lab` with a second bridge for the data network, and `boot`.

Containers (`up`) and machines (`boot`) share the management bridge and the controller. Each machine has two cards: eth0
on the management bridge, and eth1 on the data bridge with the policy's RoCE-capable MTU.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from tests.lab.commands import run
from tests.lab.ledger import BASE
from tests.lab.nodes import Lab
from tests.lab.vm.accelerator import accelerator
from tests.lab.vm.image import CACHE, image
from tests.lab.vm.machine import Card, VirtualMachine

POLICY = Path(__file__).parents[3] / "roles/policy/files/policy.yml"
_DISKS = CACHE / "disks"


def sweep_disks() -> None:
    """Remove the disks of labs that are gone."""
    for folder in _DISKS.glob("lab-*"):
        if not (BASE / folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)


class VirtualLab(Lab):
    """Use as a context manager; `boot` may be called more than once. Disks live in the cache folder: /run is memory."""

    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[str, VirtualMachine] = {}
        self.disks = _DISKS / self.name
        self._leases = ExitStack()

    def __enter__(self) -> "VirtualLab":
        super().__enter__()
        try:
            self.disks.mkdir(parents=True, mode=0o700)
            self.data_mtu = int(yaml.safe_load(POLICY.read_text(encoding="utf-8"))["fabric"]["mtu"]["netdev"])
            run("ip", "-n", self._fabric, "link", "add", "data0", "type", "bridge")
            run("ip", "-n", self._fabric, "link", "set", "data0", "up")
            self._image = image()
            self._leases.enter_context(self._image.held())
            self._accelerator = accelerator(self._image.linux)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        shutil.rmtree(self.disks, ignore_errors=True)
        self._leases.close()

    def boot(self, count: int = 1) -> list[VirtualMachine]:
        """Start `count` machines more, and wait until all have come up."""
        machines = self.power_on(count)
        for machine in machines:
            machine.wait()
        return machines

    def power_on(self, count: int = 1) -> list[VirtualMachine]:
        """Start `count` machines more, without waiting."""
        return [self._start(len(self.machines) + 1) for _ in range(count)]

    def inventory(
        self,
        *machines: VirtualMachine,
        variables: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> Path:
        """An inventory file of these machines (all when none is named), each in both pools, as stand-ins without a GPU.

        policy: what the site overrides, in a file beside it.
        """
        chosen = machines or tuple(self.machines.values())
        hosts = {machine.name: dict(self._connection(machine)) | dict(variables or {}) for machine in chosen}
        names: dict[str, None] = dict.fromkeys(hosts)
        document = {"all": {"hosts": hosts, "children": {pool: {"hosts": names} for pool in ("prefill", "decode")}}}
        path = self.folder / "machines.yml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        path.with_name("policy.yml").write_text(yaml.safe_dump(dict(policy or {})), encoding="utf-8")
        return path

    def start_in_fabric(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """`command` in the fabric's namespace, where the taps are; it is ended with the lab at the latest."""
        with log.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                ("ip", "netns", "exec", self._fabric, *command),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                # Apart from the terminal's Ctrl-C: the lab ends it, after the test has had its say.
                start_new_session=True,
            )
        self._ledger.process(process.pid)
        return process

    def _start(self, number: int) -> VirtualMachine:
        machine = VirtualMachine(self, self._image, number, self._accelerator, self.data_mtu)
        for card, bridge in ((Card.MANAGEMENT, "br0"), (Card.DATA, "data0")):
            tap = card.tap(number)
            run("ip", "-n", self._fabric, "tuntap", "add", tap, "mode", "tap")
            run("ip", "-n", self._fabric, "link", "set", tap, "master", bridge, "up")
        run("ip", "-n", self._fabric, "link", "set", Card.DATA.tap(number), "mtu", str(self.data_mtu))
        run("ip", "-n", self._fabric, "link", "set", "data0", "mtu", str(self.data_mtu))
        with self.known_hosts.open("a", encoding="utf-8") as stream:
            stream.write(f"{machine.address} {self._image.host_key}\n")
        machine.power_on()
        self.machines[machine.name] = machine
        return machine

    def _connection(self, machine: VirtualMachine) -> Iterator[tuple[str, Any]]:
        yield "ansible_host", machine.address
        yield "ansible_user", "root"
        yield "ansible_ssh_private_key_file", str(self._image.key)
        yield "ansible_ssh_common_args", f"-o UserKnownHostsFile={self.known_hosts}"
        yield "ansible_python_interpreter", "/usr/bin/python3"
        yield "gpu_kind", "cpu"
        yield "simulated", True
