#!/usr/bin/python
"""Finds the time service of a node, and reads back whether it keeps the clock right."""

import re
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_time
short_description: Look for a time service and wait until it has the clock
description:
  - "Without `within_s` it only looks; with it, it waits until the clock is synchronised, at most so long."
options:
  within_s:
    description: Seconds to wait for a synchronised clock.
    type: int
author: pdctl
"""

RETURN = r"""
unit:
  description: The unit of the time service, the running one before one that is only installed; empty when there is none.
  returned: always
  type: str
kind:
  description: chrony, timesyncd, another one's name, or empty.
  returned: always
  type: str
container:
  description: What kind of container this is when it cannot set a clock, else empty.
  returned: always
  type: str
includes:
  description: chrony's main file and the folder from which it reads more, empty where it reads none.
  returned: always
  type: dict
synchronised:
  description: Whether the clock is synchronised, when waited for.
  returned: with within_s
  type: bool
said:
  description: The tool's own words.
  returned: with within_s
  type: str
"""

# In the order of preference where several are installed and none runs. The first is Debian's name of chrony, the second RHEL's.
UNITS = {
    "chrony.service": "chrony",
    "chronyd.service": "chrony",
    "systemd-timesyncd.service": "timesyncd",
    "ntpsec.service": "ntpsec",
    "ntp.service": "ntp",
    "ntpd.service": "ntp",
}
CONFIGURATIONS = ("/etc/chrony/chrony.conf", "/etc/chrony.conf")
# What chronyc shows while its only reference is this node's own clock.
OWN_CLOCK = "7F7F0101"


def look_for_unit(run_command):
    """(unit, kind): the running one, else the first that is there."""
    there = []
    for unit, kind in UNITS.items():
        _code, printed, _said = run_command(["systemctl", "show", "--property=LoadState,ActiveState,Id", "--", unit])
        state = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
        # An alias answers under its own unit's Id.
        if state.get("LoadState") == "loaded" and state.get("Id") == unit:
            there.append((unit, kind, state.get("ActiveState") == "active"))
    running = [each for each in there if each[2]]
    unit, kind, active = (running or there or [("", "", False)])[0]
    return unit, kind, active


def container(run_command):
    """systemd-detect-virt(1): its name, or none with exit code 1."""
    code, printed, _said = run_command(["systemd-detect-virt", "--container"])
    return printed.strip() if code == 0 else ""


def folder_of(text):
    """The last folder that a chrony.conf reads *.conf from, or empty."""
    found = re.findall(r"^\s*(?:confdir\s+(\S+)|include\s+(\S+)/\*\.conf)\s*$", text, re.MULTILINE)
    return (found[-1][0] or found[-1][1]) if found else ""


def includes():
    for path in CONFIGURATIONS:
        if Path(path).is_file():
            return {"file": path, "folder": folder_of(Path(path).read_text(encoding="utf-8", errors="replace"))}
    return {"file": "", "folder": ""}


def synchronised(run_command, kind):
    """(whether, in the tool's words)."""
    if kind == "chrony":
        code, printed, said = run_command(["chronyc", "-n", "tracking"])
        state = dict(re.findall(r"^(\S[^:]*?)\s*:\s*(.*)$", printed, re.MULTILINE))
        leap, reference = state.get("Leap status", ""), state.get("Reference ID", "")
        words = f"chronyc tracking: {leap}, reference {reference}" if code == 0 else f"chronyc: {printed}{said}".strip()
        return code == 0 and leap == "Normal" and not reference.startswith(OWN_CLOCK), words
    _code, printed, said = run_command(["timedatectl", "show", "--property=NTPSynchronized"])
    return printed.strip() == "NTPSynchronized=yes", f"timedatectl: {printed.strip() or said.strip()}"


def main():
    module = AnsibleModule(argument_spec={"within_s": {"type": "int"}}, supports_check_mode=True)
    unit, kind, active = look_for_unit(module.run_command)
    # The clock of a container is its host's; one that was given the right to set it runs its own service.
    result = {
        "changed": False,
        "unit": unit,
        "kind": kind,
        "container": "" if active else container(module.run_command),
        "includes": includes(),
    }
    within = module.params["within_s"]
    if within is not None:
        end = time.monotonic() + within
        good, said = synchronised(module.run_command, kind)
        while not good and time.monotonic() < end:
            time.sleep(1)
            good, said = synchronised(module.run_command, kind)
        result.update(synchronised=good, said=said)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
