#!/usr/bin/python
"""Says which engines are active on this node: units of systemd, and engines that a supervisor runs without it."""

import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_engines
short_description: Look for active engines
options:
  pattern:
    description: A regular expression that the whole name of an engine's unit matches.
    type: str
    required: true
author: pdctl
"""

RETURN = r"""
engines:
  description: Names of active units; without any, the engines of pdctl that run as plain processes.
  returned: always
  type: list
"""

STATES = "active,activating,reloading"
MODULE = "pdserve"
ROLES = ("prefill", "decode", "router")


def units(module, pattern):
    systemctl = module.get_bin_path("systemctl")
    if systemctl is None:
        return []
    flags = ["--type=service", f"--state={STATES}", "--plain", "--no-legend", "--no-pager", "--full"]
    _code, printed, _said = module.run_command([systemctl, "list-units", *flags])
    names = [line.split()[0] for line in printed.splitlines() if line.split()]
    return [name for name in names if re.match(f"(?:{pattern})$", name)]


def processes():
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        after = words[words.index(MODULE) + 1 :] if MODULE in words and "-m" in words else []
        if after and after[0] in ROLES:
            found.append(f"{MODULE} {after[0]} (process {entry.name})")
    return sorted(found)


def main():
    module = AnsibleModule(argument_spec={"pattern": {"type": "str", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, engines=units(module, module.params["pattern"]) or processes())


if __name__ == "__main__":
    main()
