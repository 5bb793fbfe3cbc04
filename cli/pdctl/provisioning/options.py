"""What the user asked of one run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdctl.errors import UsageError

# A fork is a Python process of about 50 MB that mostly waits for its node.
_FORKS_PER_CORE = 8
_MOST_FORKS = 50
_ANSIBLE_TAGS = {"all", "always", "never", "tagged", "untagged"}


def default_forks() -> int:
    return min(_MOST_FORKS, _FORKS_PER_CORE * (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Options:
    """One run of one playbook.

    canary, serial: as of `batches`. connect_timeout_s: of each SSH connection attempt, seconds. drift: run only where the
    managed state is not as it was left. verify: let the doctor look at what has converged. break_lock: of another
    operator. while_serving: also what an active engine would feel. variables: pdctl's own. plan: the document of the
    one that it does.
    """

    inventory: Path
    playbook: Path
    check: bool = False
    diff: bool = False
    limit: str | None = None
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    extra_vars: tuple[str, ...] = ()
    canary: int | None = None
    serial: str | None = None
    forks: int = field(default_factory=default_forks)
    connect_timeout_s: int = 15
    become: bool = False
    become_password: str | None = field(default=None, repr=False)
    drift: bool = False
    verify: bool = True
    break_lock: bool = False
    while_serving: bool = False
    command: str = "provision"
    variables: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = field(default=None, repr=False)

    def for_record(self) -> dict[str, Any]:
        """Without secrets: a value given by `-e` may be one, so only its name is kept."""
        return {
            "inventory": str(self.inventory.absolute()),
            "playbook": self.playbook.name,
            "check": self.check,
            "diff": self.diff,
            "limit": self.limit,
            "tags": list(self.tags),
            "skip_tags": list(self.skip_tags),
            "extra_vars": [shown(given) for given in self.extra_vars],
            "canary": self.canary,
            "serial": self.serial,
            "forks": self.forks,
            "connect_timeout_s": self.connect_timeout_s,
            "become": self.become,
            "drift": self.drift,
            "break_lock": self.break_lock,
            "while_serving": self.while_serving,
            **({"apply_plan": self.plan["run"]} if self.plan else {}),
            **{name: value for name, value in self.variables.items() if isinstance(value, str | bool)},
        }


def selected_roles(options: Options) -> set[str]:
    """The roles of the playbook that run with these tags, as Ansible chooses them."""
    import yaml

    plays = yaml.safe_load(options.playbook.read_text(encoding="utf-8"))
    tags = {tag for given in options.tags for tag in given.split(",")} or {"all"}
    skipped = {tag for given in options.skip_tags for tag in given.split(",")}
    found = set()
    for role in (role for play in plays for role in play.get("roles", ())):
        own = set(role.get("tags", ()))
        wanted = bool(own & tags) or "all" in tags or "always" in own or ("tagged" in tags and bool(own))
        if wanted and not own & skipped:
            found.add(str(role["role"]))
    return found


def refuse_unknown_tags(options: Options) -> None:
    """Ansible runs nothing for a tag that no role has, and calls that success.

    Raises:
        UsageError: a tag to run or to skip is none of the playbook's.
    """
    import yaml

    plays = yaml.safe_load(options.playbook.read_text(encoding="utf-8"))
    known = {tag for play in plays for role in play.get("roles", ()) for tag in role.get("tags", ())} | _ANSIBLE_TAGS
    asked = {tag for given in (*options.tags, *options.skip_tags) for tag in given.split(",")}
    if unknown := sorted(asked - known):
        raise UsageError(
            f"no such tag: {', '.join(unknown)}", hint=f"the tags are: {', '.join(sorted(known - _ANSIBLE_TAGS))}"
        )


def shown(given: str) -> str:
    """An argument of `-e` as it may be printed and kept."""
    if given.startswith("@"):
        return given
    return given.split("=", 1)[0] if "=" in given and not given.lstrip().startswith(("{", "[")) else "(inline)"
