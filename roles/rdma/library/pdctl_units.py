#!/usr/bin/python
"""Says which systemd units exist on this node and in what state they are."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_units
short_description: Look at systemd units
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
  description: "One record a unit: key, outcome (kept, absent or refused), load_state, active_state, message."
  returned: always
  type: list
problems:
  description: The records that are not kept.
  returned: always
  type: list
"""


def look(module, name):
    code, printed, said = module.run_command(["systemctl", "show", "--property=LoadState,ActiveState", "--", name])
    state = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    record = {"key": name, "load_state": state.get("LoadState"), "active_state": state.get("ActiveState")}
    if code != 0 or not state:
        return dict(record, outcome="refused", message=f"systemctl: {said.strip() or 'no answer'}")
    if record["load_state"] == "not-found":
        return dict(record, outcome="absent", message="no such unit on this node")
    if record["load_state"] != "loaded" or record["active_state"] == "failed":
        message = f"is {record['load_state']}, {record['active_state']}"
        return dict(record, outcome="refused", message=message)
    return dict(record, outcome="kept")


def main():
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    results = [look(module, name) for name in module.params["names"]]
    module.exit_json(changed=False, results=results, problems=[r for r in results if r["outcome"] != "kept"])


if __name__ == "__main__":
    main()
