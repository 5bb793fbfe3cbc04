#!/usr/bin/python
"""Reads back which limits a new login and a new service get on this node."""

import errno
import os
import resource

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_limits
short_description: Compare the limits of logins and services with the wanted ones
description:
  - A login is a PAM session of root made by su(1); a service is a transient unit made by systemd-run(1).
  - "`systemctl show` repeats what was asked: where the kernel refuses, only a process of the unit shows what holds."
options:
  memlock:
    description: KiB, or unlimited.
    type: str
    required: true
  nofile:
    description: Open files, or unlimited.
    type: str
    required: true
author: pdctl
"""

RETURN = r"""
results:
  description: "One record a limit: key, wanted, live, outcome (kept or refused), errno, errno_name, message."
  returned: always
  type: list
problems:
  description: The records that are not kept.
  returned: always
  type: list
"""

FLAGS = {"memlock": ("Sl", "Hl"), "nofile": ("Sn", "Hn")}
RESOURCES = {"memlock": (resource.RLIMIT_MEMLOCK, 1024), "nofile": (resource.RLIMIT_NOFILE, 1)}
SCRIPT = "; ".join(f"ulimit -{flag}" for pair in FLAGS.values() for flag in pair)
# Seen once on a busy node, its cause unknown: systemd-run ended without a word of what its unit had printed.
ATTEMPTS = 3
SESSIONS = {
    "login": ["su", "-s", "/bin/sh", "root", "-c", SCRIPT],
    "service": ["systemd-run", "--quiet", "--wait", "--collect", "--pipe", "/bin/sh", "-c", SCRIPT],
}


def kernel_refusal(limit, wanted):
    """errno with which the kernel refuses `wanted` to root of this node, or None. Raises the limit of this process."""
    number, unit = RESOURCES[limit]
    value = resource.RLIM_INFINITY if wanted == "unlimited" else int(wanted) * unit
    try:
        resource.setrlimit(number, (value, value))
    except ValueError:
        # What CPython makes of EPERM; EINVAL cannot be, since both bounds are equal.
        return errno.EPERM
    except OSError as error:
        return error.errno
    return None


def look(module, command):
    """(what a session printed, why it printed nothing)."""
    for _attempt in range(ATTEMPTS):
        code, printed, said = module.run_command(command)
        if printed.strip():
            return printed, ""
    return "", said.strip() or f"{command[0]} printed nothing and ended with exit code {code}"


def judge(session, limit, bound, wanted, live, said):
    record = {"key": f"{session} {bound} {limit}", "wanted": wanted, "live": live, "outcome": "kept"}
    if live is None:
        return dict(record, outcome="refused", message=f"could not be read: {said}")
    if live == wanted:
        return record
    number = kernel_refusal(limit, wanted)
    if number is None:
        return dict(record, outcome="refused", message="another drop-in gives another value")
    name = errno.errorcode.get(number, str(number))
    message = f"setrlimit: {os.strerror(number)} ({name})"
    return dict(record, outcome="refused", errno=number, errno_name=name, message=message)


def main():
    module = AnsibleModule(
        argument_spec={"memlock": {"type": "str", "required": True}, "nofile": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    results = []
    for session, command in SESSIONS.items():
        printed, said = look(module, command)
        values = iter(printed.split())
        for limit in FLAGS:
            for bound in ("soft", "hard"):
                results.append(judge(session, limit, bound, module.params[limit], next(values, None), said))
    module.exit_json(changed=False, results=results, problems=[r for r in results if r["outcome"] != "kept"])


if __name__ == "__main__":
    main()
