"""Looks at the nodes of an inventory as a run would before it touches them: one play of the role `preflight`, and no record."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pdctl.content import content_root
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode, worst
from pdctl.inventory import Inventory
from pdctl.provisioning.old_python import run_with_both
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import Fold, HostResult, Status

PLAYBOOK = "playbooks/preflight.yml"
PASSWORD_VARIABLES = (
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_ssh_private_key_passphrase",
)


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether a node can be provisioned. why: one line, empty where it can. reached: whether it answered."""

    host: str
    reached: bool
    why: str

    @property
    def fit(self) -> bool:
        return not self.why


def fitness(inventory: Inventory, options: Options) -> tuple[list[Fitness], bool]:
    """Of each host, in the inventory's order; and whether the look was interrupted. options: `playbook` is of no account.

    Raises PdError where Ansible ended before it reached any host.
    """
    options = dataclasses.replace(options, playbook=content_root() / PLAYBOOK, check=True)
    fold = Fold(((host.name, host.address) for host in inventory), timeout_s=options.connect_timeout_s)

    def on_event(event: Mapping[str, Any]) -> None:
        fold.step(event)

    hosts = list(fold.hosts.values())
    ended = run_with_both(options, None, None, hosts, on_event, passwords_in_inventory=has_passwords(inventory))
    if all(host.status is Status.UNTOUCHED for host in hosts) and not ended.interrupted:
        raise PdError("Ansible ended before it reached any host", detail=ended.said or None, code=ExitCode.INCOMPLETE)
    return [_fitness(host) for host in hosts], ended.interrupted


def with_kinds(looks: Iterable[Fitness], wrong: Mapping[str, str]) -> list[Fitness]:
    """A fit node that is another one than the inventory declares is not what was meant. wrong: host -> in what."""
    return [dataclasses.replace(look, why=wrong.get(look.host, "")) if look.fit else look for look in looks]


def exit_code(looks: list[Fitness], *, interrupted: bool) -> ExitCode:
    codes = [ExitCode.INTERRUPTED] if interrupted else []
    codes += [ExitCode.FINDINGS if look.reached else ExitCode.INCOMPLETE for look in looks if not look.fit]
    return worst(codes)


def has_passwords(inventory: Inventory) -> bool:
    return any(name in host.variables for host in inventory for name in PASSWORD_VARIABLES)


def _fitness(host: HostResult) -> Fitness:
    if host.unreachable is not None:
        return Fitness(host.name, False, host.unreachable)
    if host.failure is not None:
        return Fitness(host.name, True, " ".join(host.failure.message.split()))
    return Fitness(host.name, host.finished, "" if host.finished else "the look was interrupted before it")
