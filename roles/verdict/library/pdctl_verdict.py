#!/usr/bin/python
"""Ends a host's play: fails it when the node refused anything, with one line for each refusal."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_verdict
short_description: Fail a host for the settings that it refused
options:
  problems:
    description:
      - "Records of what could not be done: role, key, outcome, message."
      - Where known also wanted, live, errno and errno_name.
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


def line(problem):
    live = f", live {problem['live']}" if problem.get("live") is not None else ""
    asked = f" (wanted {problem['wanted']}{live})" if problem.get("wanted") is not None else ""
    return f"{problem['role']}: {problem['key']} {problem['outcome']}{asked}: {problem['message']}"


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
        lines = [f"{len(problems)} setting(s) of the policy do not hold on this node:", *map(line, problems)]
        module.fail_json(msg="\n".join(lines), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
