#!/usr/bin/python
"""Keeps on the node, before a run, the state of everything that the run may change; after it, what it was left as."""

from ansible.module_utils import pdctl_live as live
from ansible.module_utils import pdctl_settings as settings
from ansible.module_utils import pdctl_state as state
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_backup
short_description: Keep the managed state of a node before a run and after it
description:
  - What is kept lies below /var/lib/pdctl/runs, for root only, in a folder a run; the oldest ones go.
  - A run that changed nothing leaves only that fact.
options:
  run:
    description: Id of the run.
    type: str
    required: true
  phase:
    description: begin, before anything is touched, or end.
    type: str
    choices: [begin, end]
    required: true
  managed:
    description:
      - "What the roles may change: files (a list of mappings path, apply), sysctls (a `*` stands for a name), modules, units, users,
        fabric (a list of mappings area, rails, unused)."
    type: list
    elements: dict
    required: true
  expected:
    description: The digest that a plan has of the node's managed state; another state fails the node. Empty means any.
    type: str
    default: ""
author: pdctl
"""

RETURN = r"""
copy:
  description:
    - At the beginning the former state, with the content of small files; at the end what differs from it.
    - In check mode a digest of each item.
  returned: always
  type: dict
notices:
  description: "What a rollback of this run will not restore: role, key, message."
  returned: at the end
  type: list
"""


def declared(managed, key):
    return [each for role in managed for each in role.get(key) or []]


def begin(module, run):
    managed = module.params["managed"]
    fabric = declared(managed, "fabric")
    files = declared(managed, "files") + settings.files(fabric)
    paths, keys = state.expanded([each["path"] for each in files], declared(managed, "sysctls"))
    former = state.look(paths, keys, declared(managed, "modules"))
    former["live"] = live.look(
        module.run_command, live.names(declared(managed, "units"), declared(managed, "users"), fabric)
    )
    items = state.items(former)
    if module.params["expected"] not in ("", state.digest(items)):
        module.fail_json(msg="the node's managed state changed since the plan was made, so nothing was changed")
    if module.check_mode:
        module.exit_json(changed=False, copy={"state": items})
    former["apply"] = {each["path"]: each["apply"] for each in files if each.get("apply")}
    former["packages"] = state.packages(module.run_command, module.get_bin_path)
    try:
        state.keep(run, former)
        state.prune()
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the former state cannot be kept in {state.KEPT}, so nothing was changed: {error}")
    module.exit_json(changed=False, copy=state.travelling(run, former))


def end(module, run):
    folder = state.folder_of(run)
    former = state.document(folder / "before.json")
    if former is None:
        module.fail_json(msg=f"{folder} has no state from before the run")
    latter = state.look_again(former)
    latter["live"] = live.look(module.run_command, former.get("live") or {})
    latter["packages"] = state.packages(module.run_command, module.get_bin_path)
    paths, keys = state.differing(former, latter)
    moved = live.differing(former, latter)
    moved += [name for name, loaded in latter["modules"].items() if loaded != former["modules"][name]]
    if not paths and not keys and not moved and latter["packages"] == former["packages"]:
        state.mark_unchanged(run)
        module.exit_json(changed=False, copy={"unchanged": True}, notices=[])
    state.write_document(folder / "after.json", latter)
    lost = [path for path in paths if former["paths"][path].get("kept") is False]
    notices = [
        {"role": "backup", "key": path, "message": "too large to keep: no rollback restores it"} for path in lost
    ]
    module.exit_json(changed=False, copy={"after": latter}, notices=notices)


def main():
    module = AnsibleModule(
        argument_spec={
            "run": {"type": "str", "required": True},
            "phase": {"type": "str", "choices": ["begin", "end"], "required": True},
            "managed": {"type": "list", "elements": "dict", "required": True},
            "expected": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    if module.check_mode and module.params["phase"] == "end":
        module.exit_json(changed=False, copy={}, notices=[])
    try:
        {"begin": begin, "end": end}[module.params["phase"]](module, module.params["run"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        module.fail_json(msg=f"{state.KEPT}: {error}")


if __name__ == "__main__":
    main()
