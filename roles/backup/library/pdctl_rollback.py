#!/usr/bin/python
"""Says how this node comes back to before a run, and puts it there: live settings of rails by commands, then all else.

Three phases, in this order. `begin` refuses where something was changed again since, and keeps the state that is there now. `look` and
`record` are asked by the action pdctl_confirmed: it makes the commands of `look` under a timer that undoes them, since they can cut
the node off, and only when the node was reached again are files, kernel parameters and units put back by `record`.
"""

import errno
import os

from ansible.module_utils import pdctl_former as formerly
from ansible.module_utils import pdctl_live as live
from ansible.module_utils import pdctl_settings as settings
from ansible.module_utils import pdctl_state as state
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_rollback
short_description: Restore the state that a node had before a run
description:
  - Only what the run changed is restored, and to exactly the former state; each item is read back.
  - When anything of it was changed again since the run, nothing is touched, unless forced.
  - The state that is there now is kept first, under the id of this rollback.
  - Live settings of rails, which can cut the node off, are left to the action pdctl_confirmed, by commands both ways.
options:
  phase:
    description:
      - "begin: refuse what was changed since, and keep what is there now; look: say what comes back; record: put back all but the
        live settings of rails."
    type: str
    choices: [begin, look, record]
    required: true
  run:
    description: Id of the run to undo.
    type: str
    required: true
  own_run:
    description: Id of this rollback.
    type: str
    required: true
  copy:
    description: The controller's copy of the former state; used only when the node has none.
    type: dict
    default: {}
  held:
    description: Impacts that an active engine would feel; files and live settings whose change has one of these stay as they are.
    type: list
    elements: str
    default: []
  force:
    description: Also restore what was changed since the run.
    type: bool
    default: false
author: pdctl
"""

RETURN = r"""
problems:
  description: "What did not come back, or will not: role, key, outcome, message."
  returned: by look and record
  type: list
notices:
  description: "What a rollback cannot undo: role, key, message."
  returned: by look
  type: list
wanted:
  description: "Live settings of rails that are not as before the run: key, wanted, live."
  returned: by look
  type: list
steps:
  description: Commands that put them back.
  returned: by look
  type: list
undo:
  description: Commands that undo those.
  returned: by look
  type: list
records:
  description: What else comes back.
  returned: by look
  type: list
state:
  description: Live setting of a rail -> value.
  returned: by look
  type: dict
kept:
  description: Whether the state that is there now was kept, since some of it will change.
  returned: by begin
  type: bool
copy:
  description: The state before this rollback, as of pdctl_backup.
  returned: by begin
  type: dict
"""

# Where neither program is, there is no initramfs to rebuild.
_INITRAMFS = """
if command -v update-initramfs >/dev/null; then exec update-initramfs -u -k all; fi
if command -v dracut >/dev/null; then exec dracut --force --regenerate-all; fi
"""
_NETPLAN = """
netplan generate || exit
if [ "$(LC_ALL=C nmcli -g RUNNING general 2>/dev/null)" = running ]; then exec nmcli connection reload; fi
"""
APPLIES = {
    "systemd-manager": ["systemctl", "daemon-reexec"],
    "systemd-units": ["systemctl", "daemon-reload"],
    "initramfs": ["/bin/sh", "-c", _INITRAMFS],
    "netplan": ["/bin/sh", "-c", _NETPLAN],
    "networkmanager": ["nmcli", "connection", "reload"],
    "networkmanager-defaults": ["systemctl", "reload", "--", "NetworkManager.service"],
}


def problem(key, outcome, message, **more):
    return dict({"role": "backup", "key": key, "outcome": outcome, "message": message}, **more)


def command_of(name):
    """What `apply` of a declared file means: a name of APPLIES, or `restart UNIT`."""
    verb, _space, unit = name.partition(" ")
    return ["systemctl", "try-restart", "--", unit] if verb == "restart" else APPLIES[name]


def order(paths, before):
    """Folders that come back first, the outer before the inner; folders that go last, the inner first."""
    depth = {path: path.count("/") for path in paths}
    back = sorted((p for p in paths if before["paths"][p]["kind"] == "dir"), key=depth.get)
    gone = [p for p in paths if before["paths"][p]["kind"] == "absent"]
    rest = [p for p in paths if p not in back and p not in gone]
    return back + rest + sorted(gone, key=depth.get, reverse=True)


def restore_path(module, path, former, write):
    entry = former.before["paths"][path]
    content = former.content(entry) if entry["kind"] == "file" else None
    if entry["kind"] in ("other", "unreadable") or (entry["kind"] == "file" and content is None):
        return problem(path, "refused", "its former content was not kept")
    if entry["kind"] == "absent" and formerly.strangers(path, former):
        return problem(path, "refused", "the folder was not there before, and now holds files of others: left")
    if not write:
        return None
    try:
        state.put_path_back(path, entry, content)
    except OSError as error:
        return problem(path, "refused", f"{error}", errno=error.errno)
    if entry["kind"] != "absent" and module.selinux_enabled():
        module.set_default_selinux_context(path, False)
    if not state.same(state.look_at_path(path), entry):
        return problem(path, "clamped", "was written back and does not read as it was")
    return None


def restore_key(key, wanted, now):
    try:
        state.put_key_back(key, wanted)
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error.errno))
        text = f"writing: {os.strerror(error.errno)} ({name})"
        return problem(
            formerly.dotted(key), "refused", text, wanted=wanted, live=now, errno=error.errno, errno_name=name
        )
    live = state.look_at_key(key)
    if live != wanted:
        return problem(formerly.dotted(key), "clamped", "the kernel took the write", wanted=wanted, live=live)
    return None


def apply(module, former, paths):
    """What must read the files again; systemd before what it starts."""
    found = []
    names = {former.before["apply"][path] for path in paths if path in former.before["apply"]}
    for name in sorted(names, key=lambda each: (each.startswith("restart "), each)):
        command = command_of(name)
        code, _printed, said = module.run_command(command)
        if code != 0:
            found.append(problem(name, "refused", f"{' '.join(command)}: exit code {code}: {said.strip()}"))
    return found


def restore_others(module, former, now, names):
    found = []
    for name in names:
        wanted = former.before["live"][name]
        why = live.put_back(module.run_command, name, wanted)
        if why:
            found.append(problem(name, "refused", why, wanted=wanted, live=now["live"][name]))
    return found


def spare(former, names, held):
    """(paths or live settings to restore, problems of those that stay for the sake of an active engine)."""
    impacts = former.before.get("impact", {})
    text = "an engine is active here, and the impact is {}: --while-serving"
    stay = [problem(name, "refused", text.format(impacts[name])) for name in names if impacts.get(name) in held]
    return [name for name in names if impacts.get(name) not in held], stay


class Way:
    """What of the node goes back, as it is now."""

    def __init__(self, module, former):
        self.module, self.former = module, former
        self.now = state.look_again(former.before)
        self.now["live"] = live.look(module.run_command, former.before.get("live") or {})
        self.installed = state.packages(module.run_command, module.get_bin_path)
        self.paths, self.keys, others, self.notices = formerly.to_restore(former, self.now)
        held = module.params["held"]
        self.paths, self.spared = spare(former, self.paths, held)
        others, spared = spare(former, others, held)
        self.spared += spared
        self.units = [name for name in others if not live.of_fabric(name)]
        self.fabric = [name for name in others if live.of_fabric(name)]

    @property
    def others(self):
        return [*self.units, *self.fabric]

    def begin(self):
        moved = formerly.moved_since(self.former, self.now, self.paths, self.keys, self.others)
        if moved and not self.module.params["force"]:
            self.module.fail_json(
                msg="changed again since the run, so nothing on this node was touched: "
                f"{', '.join(moved)}. Roll back what changed it first, or use --force"
            )
        if not (self.paths or self.keys or self.others):
            self.module.exit_json(changed=False, kept=False, copy={"unchanged": True})
        if self.module.check_mode:
            self.module.exit_json(changed=False, kept=False, copy={})
        own = self.module.params["own_run"]
        kept = state.document(state.folder_of(own) / "before.json")
        if kept is None:
            kept = dict(
                state.look(self.paths, self.keys, []),
                live={name: self.now["live"][name] for name in self.others},
                apply=self.former.before["apply"],
                impact=self.former.before.get("impact", {}),
                packages=self.installed,
            )
            state.keep(own, kept)
        state.forget_the_end(own)
        self.module.exit_json(changed=False, kept=True, copy=state.travelling(own, kept))

    def look(self):
        foreseen = [restore_path(self.module, path, self.former, write=False) for path in self.paths]
        problems = [each for each in foreseen if each]
        stay = [each["key"] for each in problems]
        kept = self.former.before.get("live") or {}
        present = {name: value for name, value in self.now["live"].items() if live.of_fabric(name)}
        present.update(settings.look(settings.moved_along(self.fabric)))
        lost = [name for name in self.fabric if not settings.commands(name, kept[name], present[name])]
        problems += [
            problem(name, "refused", "no command makes it so", wanted=kept[name], live=present[name]) for name in lost
        ]
        fabric = [name for name in self.fabric if name not in lost]
        steps, undo = settings.both_ways(fabric, kept, present)
        self.module.exit_json(
            changed=False,
            wanted=[{"key": name, "wanted": kept[name], "live": present[name]} for name in fabric],
            steps=steps,
            undo=undo,
            records=[each for each in [*self.paths, *map(formerly.dotted, self.keys), *self.units] if each not in stay],
            state=present,
            problems=self.spared + problems,
            notices=self.notices + formerly.beyond(self.former, self.now, self.installed),
            diff=formerly.differences(self.former, self.now, self.paths, self.keys, self.others),
        )

    def record(self):
        if self.module.check_mode:
            self.module.exit_json(changed=False, problems=[], notices=[])
        for name in self.units:
            live.let_go(self.module.run_command, name, self.former.before["live"][name])
        values = self.former.before["sysctls"]
        found = [
            restore_path(self.module, path, self.former, write=True) for path in order(self.paths, self.former.before)
        ]
        found += [restore_key(key, values[key], self.now["sysctls"][key]) for key in self.keys]
        problems = [each for each in found if each] + apply(self.module, self.former, self.paths)
        problems += restore_others(self.module, self.former, self.now, self.units)
        left = state.look_again(self.former.before)
        left["live"] = live.look(self.module.run_command, self.units)
        state.prune()
        changed = any(state.differing(self.now, left)) or bool(live.differing(left, self.now))
        self.module.exit_json(changed=changed, problems=problems, notices=[])


def nothing_to_do(module, problems):
    if module.params["phase"] == "begin":
        module.exit_json(changed=False, kept=False, copy={} if problems else {"unchanged": True})
    nothing = {key: [] for key in ("wanted", "steps", "undo", "records", "notices", "diff")}
    module.exit_json(changed=False, problems=problems, state={}, **nothing)


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["begin", "look", "record"], "required": True},
            "run": {"type": "str", "required": True},
            "own_run": {"type": "str", "required": True},
            "copy": {"type": "dict", "default": {}},
            "held": {"type": "list", "elements": "str", "default": []},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    run = module.params["run"]
    try:
        former = formerly.Former(run, module.params["copy"])
        if former.before is not None:
            way = Way(module, former)
            {"begin": way.begin, "look": way.look, "record": way.record}[module.params["phase"]]()
    except (OSError, ValueError, KeyError, TypeError) as error:
        module.fail_json(msg=f"what was kept of run {run} is damaged, or this node refuses: {error!r}")
    if former.unchanged:
        nothing_to_do(module, [])
    message = f"neither this node nor the record has a former state of run {run}: nothing was restored"
    nothing_to_do(module, [problem("run", "absent", message)])


if __name__ == "__main__":
    main()
