#!/usr/bin/python
"""Picks the first wanted locale that this node has, and proves it with `locale charmap`."""

import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_locale
short_description: Choose a locale that exists
description:
  - "`locale charmap` under a missing locale exits 0 and prints ANSI_X3.4-1968."
  - Only the exact charmap and a silent error stream prove a locale.
options:
  candidates:
    description: Locale names in order of preference.
    type: list
    elements: str
    required: true
  charmap:
    description: What `locale charmap` must print.
    type: str
    required: true
  generate:
    description: The command that makes the missing locale, run when no candidate is proven. Empty means none.
    type: list
    elements: str
    default: []
author: pdctl
"""

RETURN = r"""
chosen:
  description: The first candidate that is proven, or null.
  returned: always
  type: str
tried:
  description: "One record a candidate: name, listed, charmap, said (what went to the error stream)."
  returned: always
  type: list
"""


def normalised(name):
    """`locale -a` prints C.utf8 for C.UTF-8."""
    return name.lower().replace("-", "")


def look(module):
    """(the first proven candidate or None, one record a candidate)."""
    tool = module.get_bin_path("locale", required=True)

    def run(argument, name):
        environment = dict(os.environ, LC_ALL=name, LANGUAGE="")
        return module.run_command([tool, argument], environ_update=environment)

    _code, listing, _said = run("-a", "C")
    listed = {normalised(name) for name in listing.split()}
    tried = []
    for name in module.params["candidates"]:
        _code, printed, said = run("charmap", name)
        tried.append(
            {"name": name, "listed": normalised(name) in listed, "charmap": printed.strip(), "said": said.strip()}
        )
    proven = [t["name"] for t in tried if t["listed"] and t["charmap"] == module.params["charmap"] and not t["said"]]
    return (proven[0] if proven else None), tried


def main():
    module = AnsibleModule(
        argument_spec={
            "candidates": {"type": "list", "elements": "str", "required": True},
            "charmap": {"type": "str", "required": True},
            "generate": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    generate = module.params["generate"]
    chosen, tried = look(module)
    if chosen or not generate:
        module.exit_json(changed=False, chosen=chosen, tried=tried)
    if not module.check_mode:
        code, _printed, said = module.run_command(generate)
        if code != 0:
            module.fail_json(msg=f"{' '.join(generate)}: exit code {code}: {said.strip()}", tried=tried)
        chosen, tried = look(module)
    module.exit_json(changed=True, chosen=chosen, tried=tried)


if __name__ == "__main__":
    main()
