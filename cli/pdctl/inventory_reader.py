"""ansible-inventory, with what it leaves out; a script of its own process (`load_inventory` runs it).

What it adds goes to stderr, a line each:

NOTE     a variable that two places give to one host with two values: Ansible lets the last one win in silence
LINE     the line of an INI file that cannot be read
MISSING  JSON: a host's variable whose template cannot be filled in, and why

The variables that pdctl itself uses are filled in (`"{{ rack }}.11"`), as a play would; ansible-inventory leaves them.
A host range is counted before it is expanded, since Ansible makes all of its names first.
"""

import json
import re
import string
import sys
from collections.abc import Iterable, Mapping
from typing import Any

NOTE = "pdctl-inventory-note: "
LINE = "pdctl-inventory-bad-line: "
MISSING = "pdctl-inventory-missing: "
MOST_HOSTS_OF_A_RANGE = 10_000
_RANGE = re.compile(r"\[(?P<begin>[A-Za-z0-9]*):(?P<end>[A-Za-z0-9]+)(?::(?P<step>\d+))?\]")
# Besides all of Ansible's own, which begin with its name.
_FILLED_IN = ("gpu_kind", "simulated", "pdctl_policy")
# Others may hold a secret.
_MAY_BE_SHOWN = ("ansible_host", "ansible_port", "ansible_user", "ansible_connection", "gpu_kind", "simulated")


def main() -> None:
    from ansible.cli.inventory import main as ansible_inventory

    _bound_ranges()
    _note_conflicts()
    _note_bad_lines()
    _fill_in_templates()
    ansible_inventory(["ansible-inventory", *sys.argv[1:]])


def range_size(pattern: str) -> int:
    """How many names a host pattern stands for; one, or too few, where Ansible will refuse it."""
    size = 1
    for found in _RANGE.finditer(pattern):
        size *= max(1, _length(found["begin"] or "0", found["end"], found["step"] or "1"))
    return size


def _length(begin: str, end: str, step: str) -> int:
    if max(len(begin), len(end), len(step)) > 18:
        return sys.maxsize
    if begin.isdecimal() and end.isdecimal():
        return (int(end) - int(begin)) // max(1, int(step)) + 1
    if len(begin) == len(end) == 1 and begin.isalpha() and end.isalpha():
        return string.ascii_letters.index(end) - string.ascii_letters.index(begin) + 1
    return 1


def _bound_ranges() -> None:
    from ansible.errors import AnsibleError
    from ansible.plugins import inventory

    expand = inventory.expand_hostname_range

    def bounded(line: str | None = None) -> Any:
        if line and range_size(line) > MOST_HOSTS_OF_A_RANGE:
            raise AnsibleError(f"the host range `{line[:80]}` stands for more than {MOST_HOSTS_OF_A_RANGE} hosts")
        return expand(line)

    inventory.expand_hostname_range = bounded


def _note_conflicts() -> None:
    from ansible.plugins.inventory import _BaseInventoryPlugin

    populate = _BaseInventoryPlugin._populate_host_vars
    given: dict[tuple[str, str], tuple[Any, str]] = {}

    def watched(
        self: Any, hosts: Iterable[str], variables: Mapping[str, Any], group: str | None = None, port: Any = None
    ) -> Any:
        hosts = list(hosts)
        if isinstance(variables, Mapping):
            for host in hosts:
                for name, value in variables.items():
                    place = f"group `{group}`" if group and group not in ("all", "ungrouped") else "no group"
                    before = given.setdefault((host, str(name)), (value, place))
                    if before[0] != value:
                        print(NOTE + _conflict(host, str(name), before, (value, place)), file=sys.stderr)
                        given[host, str(name)] = (value, place)
        return populate(self, hosts, variables, group, port)

    _BaseInventoryPlugin._populate_host_vars = watched


def _note_bad_lines() -> None:
    """Ansible 2.19 reports no line for an INI inventory, though its parser counts them."""
    from ansible.plugins.inventory.ini import InventoryModule

    parse = InventoryModule._parse

    def watched(self: Any, lines: Any) -> Any:
        try:
            return parse(self, lines)
        except Exception:
            print(f"{LINE}{self._origin.line_num}", file=sys.stderr)
            raise

    InventoryModule._parse = watched


def _fill_in_templates() -> None:
    from ansible import context
    from ansible.cli.inventory import InventoryCLI
    from ansible.errors import AnsibleError
    from ansible.template import Templar

    variables_of = InventoryCLI._get_host_variables

    def filled_in(self: Any, host: Any) -> Any:
        variables = variables_of(self, host)
        if context.CLIARGS["export"]:
            return variables
        ours = [name for name in sorted(variables) if name.startswith("ansible_") or name in _FILLED_IN]
        for name in ours:
            if hasattr(variables[name], "_ciphertext"):
                # Plain: what still carries the mark of a vault is dumped as the vault.
                variables[name] = json.loads(json.dumps(str(variables[name])))
        if not (templates := [name for name in ours if _has_template(variables[name])]):
            return variables
        templar = Templar(loader=self.loader, variables=self.vm.get_vars(host=host))
        for name in templates:
            try:
                variables[name] = templar.template(variables[name])
            except AnsibleError as error:
                print(MISSING + json.dumps([host.name, name, " ".join(str(error).split())]), file=sys.stderr)
        return variables

    InventoryCLI._get_host_variables = filled_in


def _has_template(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_template, value.values()))
    if isinstance(value, list):
        return any(map(_has_template, value))
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def _conflict(host: str, name: str, first: tuple[Any, str], last: tuple[Any, str]) -> str:
    def shown(given: tuple[Any, str]) -> str:
        value, place = given
        return f"`{value}` in {place}" if name in _MAY_BE_SHOWN else f"one value in {place}"

    return f"host `{host}` has two values of `{name}`: {shown(first)}, {shown(last)}; the last one counts"


if __name__ == "__main__":
    main()
