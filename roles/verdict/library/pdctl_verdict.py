#!/usr/bin/python
"""Ends a host's play: fails it when the node refused anything, with one line for each refusal."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pdctl_verdict
short_description: Fail a host for the settings that it refused
options:
  problems:
    description: "Records of what could not be done: role, key, outcome, and where known wanted, live, errno_name, message."
    type: list
    elements: dict
    required: true
  notices:
    description: "Records of what the operator should know: role, key, message. They fail nothing."
    type: list
    elements: dict
    default: []
author: pdctl
"""

RETURN = r"""
problems:
  description: As given.
  returned: always
  type: list
notices:
  description: As given.
  returned: always
  type: list
"""

from ansible.module_utils.basic import AnsibleModule


def line(problem):
    live = ", live %s" % problem["live"] if problem.get("live") is not None else ""
    asked = " (wanted %s%s)" % (problem["wanted"], live) if problem.get("wanted") is not None else ""
    return "%s: %s %s%s: %s" % (
        problem["role"],
        problem["key"],
        problem["outcome"],
        asked,
        problem.get("message") or "no reason given",
    )


def main():
    module = AnsibleModule(
        argument_spec={
            "problems": {"type": "list", "elements": "dict", "required": True},
            "notices": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    problems, notices = module.params["problems"], module.params["notices"]
    result = {"changed": False, "problems": problems, "notices": notices}
    if problems:
        summary = "%d setting(s) of the policy do not hold on this node:\n" % len(problems)
        module.fail_json(msg=summary + "\n".join(line(problem) for problem in problems), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
