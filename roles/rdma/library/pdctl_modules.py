#!/usr/bin/python
"""Loads kernel modules that this kernel has, and says which it does not have."""

import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_modules
short_description: Load kernel modules and tell a missing one from a refused one
options:
  names:
    description: Module names.
    type: list
    elements: str
    required: true
author: pdctl
"""

RETURN = r"""
results:
  description: "One record a module: key, outcome (kept, changed, absent or refused), message."
  returned: always
  type: list
available:
  description: The names that this kernel has, loaded, built in or loadable.
  returned: always
  type: list
"""


def main():
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    modprobe = module.get_bin_path("modprobe", opt_dirs=["/sbin", "/usr/sbin"])
    results = []
    for name in module.params["names"]:
        record = {"key": name, "outcome": "kept"}
        if Path("/sys/module", name.replace("-", "_")).is_dir():
            results.append(record)
            continue
        code = module.run_command([modprobe, "--dry-run", name])[0] if modprobe else 1
        if code != 0:
            message = f"kernel {platform.release()} has no such module: no RDMA by it"
            results.append(dict(record, outcome="absent", message=message))
            continue
        if not module.check_mode:
            code, _out, said = module.run_command([modprobe, name])
        if code != 0:
            results.append(dict(record, outcome="refused", message=said.strip()))
        else:
            results.append(dict(record, outcome="changed"))
    module.exit_json(
        changed=any(r["outcome"] == "changed" for r in results),
        results=results,
        available=[r["key"] for r in results if r["outcome"] != "absent"],
    )


if __name__ == "__main__":
    main()
