"""Which nodes are still as the last run left them: one SSH exec each, no Ansible.

A node keeps the word of the last run that came to its end there without a refusal (/var/lib/pdctl/converged.json): what
the run stood on, what its roles manage, and a digest of that. Whoever has the inventory can compare.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pdctl.content import content_root
from pdctl.inventory import Host, Inventory
from pdctl.provisioning.options import Options
from pdctl.reach.fleet import run_everywhere
from pdctl.reach.outcome import Outcome, Reached
from pdctl.reach.root import as_root
from pdctl.reach.sudo import sudo_password

# In the order in which they import each other.
_SENT = (
    *("confirm/module_utils/pdctl_rails", "confirm/module_utils/pdctl_owner", "confirm/module_utils/pdctl_bridging"),
    *("confirm/module_utils/pdctl_addresses", "confirm/module_utils/pdctl_address_change"),
    *("confirm/module_utils/pdctl_routes", "confirm/module_utils/pdctl_ifupdown", "confirm/module_utils/pdctl_netplan"),
    "confirm/module_utils/pdctl_address_record",
    *("confirm/module_utils/pdctl_settings", "backup/module_utils/pdctl_state", "backup/module_utils/pdctl_live"),
    "backup/module_utils/pdctl_drift",
)
_MARK = "pdctl-drift "
_MOST_WORD = 64 << 10
_DEADLINE_S = 60.0

# The sources run under the names by which they import each other.
_LOOK = """for python in python3 /usr/libexec/platform-python; do command -v $python >/dev/null && break; done
exec $python - <<'PDCTL-END'
import json, sys, types
place = "ansible.module_utils"
for name in ("ansible", place):
    sys.modules[name] = types.ModuleType(name)
for name, source in {sources}:
    module = sys.modules[place + "." + name] = types.ModuleType(name)
    setattr(sys.modules[place], name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
print("{mark}" + json.dumps(module.drift()))
PDCTL-END
"""
_FORGET = "rm -f /var/lib/pdctl/converged.json && echo 'pdctl-drift {}'"


def selection(options: Options) -> list[Any]:
    """What of the options decides what a run does to a node."""
    return [sorted(options.tags), sorted(options.skip_tags), options.while_serving, options.playbook.name]


def look_script() -> str:
    """Prints one line: the mark, and what `drift` of pdctl_drift.py says of the node."""
    paths = [content_root() / "roles" / f"{name}.py" for name in _SENT]
    sources = [(path.stem, path.read_text(encoding="utf-8")) for path in paths]
    return _LOOK.format(sources=json.dumps(sources), mark=_MARK)


def settled(inventory: Inventory, digest_of: Callable[[str, str], str], options: Options) -> Mapping[str, str]:
    """Host -> the run that left it as it is. All others have drifted, or nobody can tell."""
    script = look_script()
    found = {}
    for outcome in _everywhere(inventory.hosts, script, options):
        word = _word(outcome)
        try:
            same = word["digest"] == word["now"] and word["basis"] == digest_of(outcome.node, str(word["salt"]))
        except KeyError:
            continue
        if same:
            found[outcome.node] = str(word["run"])
    return found


def forget(hosts: Iterable[Host], options: Options, warn: Callable[[str], None]) -> None:
    """Nodes that left word of converging, before it showed that they have not."""
    for outcome in _everywhere(list(hosts), _FORGET, options):
        if not isinstance(outcome, Reached) or _MARK not in outcome.output:
            warn(f"{outcome.node} still says that it has converged, and `--drift` will believe it")


def _everywhere(hosts: Iterable[Host], script: str, options: Options) -> list[Outcome]:
    def whole(host: Host) -> str:
        return as_root(script, sudo_password(host, options.become_password))

    connect_s = float(options.connect_timeout_s)
    return run_everywhere(list(hosts), whole, connect_s=connect_s, deadline_s=connect_s + _DEADLINE_S)


def _word(outcome: Outcome) -> Mapping[str, Any]:
    line = next((line for line in outcome.output.splitlines() if line.startswith(_MARK)), "")
    if not isinstance(outcome, Reached) or len(line) > _MOST_WORD:
        return {}
    try:
        word = json.loads(line.removeprefix(_MARK) or "{}")
    except ValueError:
        return {}
    return word if isinstance(word, dict) else {}
