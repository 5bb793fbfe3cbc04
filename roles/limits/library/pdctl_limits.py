#!/usr/bin/python
"""Reads back which limits a new login and a new service get on this node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pdctl_limits
short_description: Compare the limits of logins and services with the wanted ones
description:
  - A login is a PAM session of root made by su(1); a service gets the defaults of the running systemd manager.
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
  description: "One record a limit: key, wanted, live, outcome (kept or refused), message."
  returned: always
  type: list
problems:
  description: The records that are not kept.
  returned: always
  type: list
"""

from ansible.module_utils.basic import AnsibleModule

LOGIN = {"memlock": ("Sl", "Hl"), "nofile": ("Sn", "Hn")}
SERVICE = {"memlock": "DefaultLimitMEMLOCK", "nofile": "DefaultLimitNOFILE"}


def compare(key, wanted, live, said):
    record = {"key": key, "wanted": wanted, "live": live, "outcome": "kept"}
    if live is None:
        return dict(record, outcome="refused", message="could not be read: %s" % (said or "no output"))
    if live != wanted:
        return dict(record, outcome="refused", message="another drop-in or the kernel wins")
    return record


def login_limits(module):
    """{limit: {soft, hard}} as ulimit prints them, and what su said."""
    flags = [flag for pair in LOGIN.values() for flag in pair]
    script = "; ".join("ulimit -%s" % flag for flag in flags)
    _code, printed, said = module.run_command(["su", "-s", "/bin/sh", "root", "-c", script])
    values = dict(zip(flags, printed.split()))
    return {name: [values.get(flag) for flag in pair] for name, pair in LOGIN.items()}, said.strip()


def service_limits(module):
    """{limit: [soft, hard]} in the units of ulimit, and what systemctl said."""
    names = [name + suffix for name in SERVICE.values() for suffix in ("Soft", "")]
    _code, printed, said = module.run_command(["systemctl", "show", "--property", ",".join(names)])
    values = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)

    def value(limit, name):
        shown = values.get(name)
        if shown in (None, ""):
            return None
        if shown in ("infinity", "18446744073709551615"):
            return "unlimited"
        return str(int(shown) // 1024) if limit == "memlock" else shown

    return {limit: [value(limit, name + "Soft"), value(limit, name)] for limit, name in SERVICE.items()}, said.strip()


def main():
    module = AnsibleModule(
        argument_spec={"memlock": {"type": "str", "required": True}, "nofile": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    results = []
    for kind, (limits, said) in (("login", login_limits(module)), ("service", service_limits(module))):
        for limit, pair in limits.items():
            for bound, live in zip(("soft", "hard"), pair):
                results.append(compare("%s %s %s" % (kind, bound, limit), module.params[limit], live, said))
    module.exit_json(changed=False, results=results, problems=[r for r in results if r["outcome"] != "kept"])


if __name__ == "__main__":
    main()
