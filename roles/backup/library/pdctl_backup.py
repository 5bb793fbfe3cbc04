#!/usr/bin/python
"""Keeps on the node, before a run, the state of everything that the run may change; after it, what it was left as."""

from pathlib import Path

from ansible.module_utils import pdctl_drift as drift
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
  - A run that is resumed keeps what its first try found; what it changed is on the disk when its end is recorded.
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
      - "What the roles may change: files (mappings of path, apply), sysctls (a `*` stands for a name), modules, units, users, firmware,
        fabric (mappings of area, rails, unused)."
    type: list
    elements: dict
    required: true
  expected:
    description: The digest that a plan has of the node's managed state; another state fails the node. Empty means any.
    type: str
    default: ""
  former:
    description:
      - "Id of a run that goes on, in check mode: where the node keeps what that run's first try found, it is looked at in place of
        what is there now."
    type: str
    default: ""
  basis:
    description:
      - "At the end: salt and digest of all that the run stood on for this node. Kept on it with a digest of what the roles
        manage, so that drift is seen in one look."
    type: dict
    default: {}
  whole:
    description: "At the end: the run went over all roles."
    type: bool
    default: true
  refused:
    description: The node refused something, so that it has not converged.
    type: bool
    default: false
author: pdctl
"""

RETURN = r"""
copy:
  description:
    - At the beginning the former state, with the content of small files; at the end what differs from it.
    - In check mode a digest of each item.
  returned: always
  type: dict
unread:
  description:
    - What an earlier run wrote may not have been read by who reads it, since that run was cut off before it could see to it.
  returned: at the beginning
  type: bool
notices:
  description: "What a rollback of this run will not restore: role, key, message."
  returned: at the end
  type: list
"""


# Of the paths that roles declare, those with such an ending are files.
OF_FILES = (".conf", ".cnf", ".network", ".link", ".repo", ".rules", ".service", ".sh", ".timer", ".yaml")


def declared(managed, key):
    return [each for role in managed for each in role.get(key) or []]


def refuse_misplaced(module, paths):
    """A module of Ansible would write into the folder, or wait for the pipe's writer, and the role would say that all is done."""
    for path, found in sorted(paths.items()):
        folder = found["kind"] == "dir" and Path(path).suffix in OF_FILES
        if folder or found["kind"] == "other":
            what = "a folder" if folder else "neither a file nor a folder"
            module.fail_json(msg=f"{path} is {what}, and a role keeps a file there: nothing was changed; move it away")


def disturbing(role):
    """Paths and live settings whose change has the role's impact on an engine."""
    fabric = role.get("fabric") or []
    files = [*(role.get("files") or []), *settings.files(fabric)]
    return [*(each["path"] for each in files), *settings.names(fabric)]


def refuse_unless_expected(module, items):
    if module.params["expected"] not in ("", state.digest(items)):
        module.fail_json(msg="the node's managed state changed since the plan was made, so nothing was changed")


def resume(module, run, former):
    """A run that goes on keeps what was there before its first try."""
    refuse_unless_expected(module, state.items(former))
    state.forget_the_end(run)
    state.mark_unread(run, True)
    module.exit_json(changed=False, copy=state.travelling(run, former), unread=True)


def look_at_former(module):
    """Of a run that goes on: where its first try had come, what it found."""
    former = state.document(state.folder_of(module.params["former"]) / "before.json")
    if former is not None:
        module.exit_json(changed=False, copy={"state": state.items(former)})


def begin(module, run):
    if module.check_mode and module.params["former"]:
        look_at_former(module)
    managed = module.params["managed"]
    fabric = declared(managed, "fabric")
    files = declared(managed, "files") + settings.files(fabric)
    earlier = state.folder_of(run) / "before.json"
    if earlier.is_file() and not module.check_mode:
        resume(module, run, state.document(earlier))
    paths, keys = state.expanded([each["path"] for each in files], declared(managed, "sysctls"))
    former = state.look(paths, keys, declared(managed, "modules"))
    named = live.names(*(declared(managed, kind) for kind in ("units", "users", "firmware")), fabric)
    refuse_misplaced(module, former["paths"])
    former["live"] = live.look(module.run_command, named)
    items = state.items(former)
    refuse_unless_expected(module, items)
    unread = state.unread(run)
    if module.check_mode:
        module.exit_json(changed=False, copy={"state": items}, unread=unread)
    former["declared"] = {key: declared(managed, key) for key in drift.KEYS if key != "paths"}
    former["declared"]["paths"] = [each["path"] for each in files]
    former["impact"] = {name: role.get("impact", "none") for role in managed for name in disturbing(role)}
    former["apply"] = {each["path"]: each["apply"] for each in files if each.get("apply")}
    former["packages"] = state.packages(module.run_command, module.get_bin_path)
    try:
        forget_convergence()
        state.keep(run, former)
        state.forget_the_end(run)
        state.mark_unread(run, unread)
        state.prune()
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the former state cannot be kept in {state.KEPT}, so nothing was changed: {error}")
    module.exit_json(changed=False, copy=state.travelling(run, former), unread=unread)


def forget_convergence():
    if state.CONVERGED.exists():
        state.CONVERGED.unlink()


def leave_word(module, run, former):
    """For --drift; a node that refused something is looked at by Ansible each time. What the record gets of it."""
    basis = module.params["basis"]
    if not basis or module.params["refused"]:
        return {}
    digest = drift.managed_digest(former["declared"], module.run_command)
    word = {"run": run, "salt": basis["salt"], "basis": basis["digest"], "digest": digest}
    state.write_document(state.CONVERGED, dict(word, declared=former["declared"]))
    return {"converged": {key: word[key] for key in ("basis", "digest")}}


def end(module, run):
    folder = state.folder_of(run)
    former = state.document(folder / "before.json")
    if former is None:
        module.fail_json(msg=f"{folder} has no state from before the run")
    if module.params["whole"]:
        state.mark_unread(run, False)
    word = leave_word(module, run, former)
    latter = state.look_again(former)
    latter["live"] = live.look(module.run_command, former.get("live") or {})
    latter["packages"] = state.packages(module.run_command, module.get_bin_path)
    paths, keys = state.differing(former, latter)
    moved = live.differing(former, latter)
    moved += [name for name, loaded in latter["modules"].items() if loaded != former["modules"][name]]
    if not paths and not keys and not moved and latter["packages"] == former["packages"]:
        state.mark_unchanged(run)
        module.exit_json(changed=False, copy=dict(word, unchanged=True), notices=[])
    state.make_durable(paths)
    state.write_document(folder / "after.json", latter)
    lost = [path for path in paths if former["paths"][path].get("kept") is False]
    notices = [
        {"role": "backup", "key": path, "message": "too large to keep: no rollback restores it"} for path in lost
    ]
    module.exit_json(changed=False, copy=dict(word, after=latter), notices=notices)


def main():
    module = AnsibleModule(
        argument_spec={
            "run": {"type": "str", "required": True},
            "phase": {"type": "str", "choices": ["begin", "end"], "required": True},
            "managed": {"type": "list", "elements": "dict", "required": True},
            "expected": {"type": "str", "default": ""},
            "former": {"type": "str", "default": ""},
            "basis": {"type": "dict", "default": {}},
            "whole": {"type": "bool", "default": True},
            "refused": {"type": "bool", "default": False},
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
