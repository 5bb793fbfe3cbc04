#!/usr/bin/python
"""How exposed systemd holds units to be: the figure of `systemd-analyze security`."""

import re

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_unit_security
short_description: Exposure of units by systemd-analyze security
options:
  names:
    description: Unit names.
    type: list
    elements: str
    required: true
author: pdctl
"""

RETURN = r"""
results:
  description: "One record a unit: key, exposure (0 to 10, null where this systemd does not say), message."
  returned: always
  type: list
"""


def exposure(printed):
    """(0 to 10, systemd's word for it), or None."""
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+) (\w+)", printed)
    return (float(found.group(1)), found.group(2)) if found else None


def main():
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    results = []
    for name in module.params["names"]:
        _code, printed, said = module.run_command(["systemd-analyze", "security", "--no-pager", name])
        found = exposure(printed)
        message = (
            f"exposure {found[0]} of 10 ({found[1]})" if found else f"exposure unknown: {said.strip() or 'no figure'}"
        )
        results.append({"key": name, "exposure": found[0] if found else None, "message": message})
    module.exit_json(changed=False, results=results)


if __name__ == "__main__":
    main()
