#!/usr/bin/python
"""Sets devlink parameters of every device of a driver and reads each one back; nothing is reloaded."""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_devlink
short_description: Set devlink parameters and read them back
description:
  - A parameter is set in the mode that takes effect at once (runtime), else in the one of the next reload (driverinit).
  - Neither outlives a reboot; `permanent` is the card's own memory and is not written here.
options:
  driver:
    description: The PCI driver of the devices.
    type: str
    required: true
  wanted:
    description: Parameter -> value. A null value leaves it alone.
    type: dict
    required: true
author: pdctl
"""

RETURN = r"""
results:
  description: "One record a device and parameter: key, mode, wanted, before, live, outcome, message."
  returned: always
  type: list
problems:
  description: The records that are refused, absent or clamped.
  returned: always
  type: list
pending:
  description: The records that take effect at the driver's next reload.
  returned: always
  type: list
"""

DRIVERS = Path("/sys/bus/pci/drivers")
# In the order of preference.
MODES = ("runtime", "driverinit")


def devices(driver):
    folder = DRIVERS / driver
    return sorted(path.name for path in folder.glob("*:*:*.*")) if folder.is_dir() else []


def text(value):
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def values_of(printed):
    """Mode -> value of the one parameter that `devlink -j dev param show DEV name NAME` prints."""
    found = {}
    for parameters in json.loads(printed or "{}").get("param", {}).values():
        for parameter in parameters:
            found.update(
                {each["cmode"]: text(each["value"]) for each in parameter.get("values", []) if "value" in each}
            )
    return found


def look(module, device, name):
    code, printed, said = module.run_command(["devlink", "-j", "dev", "param", "show", f"pci/{device}", "name", name])
    try:
        return (values_of(printed) if code == 0 else {}), said.strip()
    except ValueError:
        return {}, "devlink printed no JSON"


def bring(module, device, name, wanted):
    record = {"key": f"pci/{device} {name}", "wanted": wanted, "live": None, "outcome": "kept"}
    values, said = look(module, device, name)
    mode = next((each for each in MODES if each in values), None)
    if mode is None:
        message = f"this device has no such parameter that can be set: {said or 'devlink shows none'}"
        return dict(record, outcome="absent", message=message)
    record.update(mode=mode, before=values[mode], live=values[mode])
    if values[mode] == wanted:
        return record
    if module.check_mode:
        return dict(record, outcome="changed")
    command = ["devlink", "dev", "param", "set", f"pci/{device}", "name", name, "value", wanted, "cmode", mode]
    code, _printed, said = module.run_command(command)
    if code != 0:
        return dict(record, outcome="refused", message=said.strip() or f"devlink ended with {code}")
    record["live"] = look(module, device, name)[0].get(mode)
    if record["live"] != wanted:
        return dict(record, outcome="clamped", message="devlink took the value and shows another")
    return dict(record, outcome="changed")


def main():
    module = AnsibleModule(
        argument_spec={"driver": {"type": "str", "required": True}, "wanted": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    wanted = {name: text(value) for name, value in module.params["wanted"].items() if value is not None}
    results = []
    for device in devices(module.params["driver"]) if wanted else []:
        if not module.get_bin_path("devlink"):
            record = {
                "key": f"pci/{device}",
                "outcome": "absent",
                "message": "no devlink on this node: install iproute2",
            }
            results.append(record)
            continue
        results += [bring(module, device, name, value) for name, value in sorted(wanted.items())]
    moved = [each for each in results if each["outcome"] == "changed"]
    module.exit_json(
        changed=bool(moved),
        results=results,
        problems=[each for each in results if each["outcome"] in ("refused", "absent", "clamped")],
        pending=[each for each in moved if each.get("mode") == "driverinit"],
        diff={
            "before_header": "devlink",
            "after_header": "devlink",
            "before": "".join(f"{each['key']} {each['mode']} = {each['before']}\n" for each in moved),
            "after": "".join(f"{each['key']} {each['mode']} = {each['wanted']}\n" for each in moved),
        },
    )


if __name__ == "__main__":
    main()
