#!/usr/bin/python
"""Puts back what a run changed on this node: files, live kernel parameters, units, accounts. Says what it cannot put back."""

import base64
import errno
import hashlib
import os
from pathlib import Path

from ansible.module_utils import pdctl_live as live
from ansible.module_utils import pdctl_state as state
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_rollback
short_description: Restore the state that a node had before a run
description:
  - Only what the run changed is restored, and to exactly the former state; each item is read back.
  - When anything of it was changed again since the run, nothing is touched, unless forced.
  - The state that is there now is kept first, under the id of this rollback.
options:
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
    description: Impacts that an active engine would feel; files whose change has one of these stay as they are.
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
  description: "What did not come back: role, key, outcome, message."
  returned: always
  type: list
notices:
  description: "What a rollback cannot undo: role, key, message."
  returned: always
  type: list
copy:
  description: The state before this rollback, as of pdctl_backup.
  returned: always
  type: dict
"""

# Where neither program is, there is no initramfs to rebuild.
_INITRAMFS = """
if command -v update-initramfs >/dev/null; then exec update-initramfs -u -k all; fi
if command -v dracut >/dev/null; then exec dracut --force --regenerate-all; fi
"""
APPLIES = {
    "systemd-manager": ["systemctl", "daemon-reexec"],
    "systemd-units": ["systemctl", "daemon-reload"],
    "initramfs": ["/bin/sh", "-c", _INITRAMFS],
    "netplan": ["netplan", "generate"],
    "networkmanager": ["nmcli", "connection", "reload"],
}
SHOWN_DIFF = 64 << 10
SHOWN_PACKAGES = 30


class Former:
    """The state before the run, after it (None: the run did not end here), and the content of its files."""

    def __init__(self, run, copy):
        folder = state.folder_of(run)
        self._folder = folder / "content"
        self.unchanged = (folder / "unchanged.json").exists() or bool(copy.get("unchanged"))
        self.before = state.document(folder / "before.json")
        self.after = state.document(folder / "after.json")
        self._contents = {}
        if self.before is None and copy.get("paths") is not None:
            self.before, self.after, self._contents = copy, copy.get("after"), copy.get("contents") or {}

    def content(self, entry):
        """Bytes of a file, or None when they were not kept, or are no longer what was kept."""
        digest = entry["sha256"]
        if digest in self._contents:
            found = base64.b64decode(self._contents[digest])
        else:
            path = self._folder / digest
            found = path.read_bytes() if path.is_file() else b""
        return found if hashlib.sha256(found).hexdigest() == digest else None


def problem(key, outcome, message, **more):
    return dict({"role": "backup", "key": key, "outcome": outcome, "message": message}, **more)


def notice(key, message):
    return {"role": "backup", "key": key, "message": message}


def command_of(name):
    """What `apply` of a declared file means: a name of APPLIES, or `restart UNIT`."""
    verb, _space, unit = name.partition(" ")
    return ["systemctl", "try-restart", "--", unit] if verb == "restart" else APPLIES[name]


def moved_since(former, now, paths, keys, others):
    """Of what differs from before, that which is not as the run left it either."""
    if former.after is None:
        return []
    moved = [path for path in paths if not state.same(now["paths"][path], former.after["paths"][path])]
    moved += [dotted(key) for key in keys if now["sysctls"][key] != former.after["sysctls"][key]]
    return moved + [name for name in others if now["live"][name] != former.after["live"][name]]


def beyond(former, now, installed):
    """Notices of what a rollback does not undo."""
    was, after = former.before["packages"], (former.after or {}).get("packages", installed)
    names = sorted(name for name in set(was) | set(after) if was.get(name) != after.get(name))
    found = []
    if names:
        more = f" and {len(names) - SHOWN_PACKAGES} more" if len(names) > SHOWN_PACKAGES else ""
        changes = ", ".join(f"{n} ({was.get(n, 'absent')} -> {after.get(n, 'absent')})" for n in names[:SHOWN_PACKAGES])
        found.append(notice("packages", f"cannot be undone, they stay: {changes}{more}"))
    for name, loaded in former.before["modules"].items():
        if now["modules"][name] and not loaded:
            found.append(notice(name, "cannot be undone: the module stays loaded until the next boot"))
    for name in filter(live.stays, live.differing(former.before, now)):
        found.append(notice(name, f"cannot be undone: was {former.before['live'][name]}, is {now['live'][name]}"))
    if former.after is None:
        found.append(notice("run", "did not end on this node: what others changed since it began goes back as well"))
    return found


def order(paths, before):
    """Folders that come back first, the outer before the inner; folders that go last, the inner first."""
    depth = {path: path.count("/") for path in paths}
    back = sorted((p for p in paths if before["paths"][p]["kind"] == "dir"), key=depth.get)
    gone = [p for p in paths if before["paths"][p]["kind"] == "absent"]
    rest = [p for p in paths if p not in back and p not in gone]
    return back + rest + sorted(gone, key=depth.get, reverse=True)


def strangers(path, former):
    """Whether a folder holds what the run did not put there."""
    if state.look_at_path(path)["kind"] != "dir":
        return False
    return any(str(each) not in former.before["paths"] for each in Path(path).iterdir())


def restore_path(module, path, former):
    entry = former.before["paths"][path]
    content = former.content(entry) if entry["kind"] == "file" else None
    if entry["kind"] in ("other", "unreadable") or (entry["kind"] == "file" and content is None):
        return problem(path, "refused", "its former content was not kept")
    if entry["kind"] == "absent" and strangers(path, former):
        return problem(path, "refused", "the folder was not there before, and now holds files of others: left")
    if module.check_mode:
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


def restore_key(module, key, wanted, now):
    if module.check_mode:
        return None
    try:
        state.put_key_back(key, wanted)
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error.errno))
        text = f"writing: {os.strerror(error.errno)} ({name})"
        return problem(dotted(key), "refused", text, wanted=wanted, live=now, errno=error.errno, errno_name=name)
    live = state.look_at_key(key)
    if live != wanted:
        return problem(dotted(key), "clamped", "the kernel took the write", wanted=wanted, live=live)
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


def dotted(key):
    return key if "." in key else key.replace("/", ".")


def shown(path, entry, content):
    """One side of a diff."""
    if entry["kind"] == "absent":
        return ""
    head = f"# {entry['kind']} {entry.get('mode', 0):04o} {entry.get('uid')}:{entry.get('gid')}\n"
    if entry["kind"] == "link":
        return f"{head}{entry['target']}\n"
    if entry["kind"] != "file":
        return head
    if content is None or len(content) > SHOWN_DIFF or b"\0" in content:
        return f"{head}(sha256 {entry['sha256']})\n"
    return head + content.decode("utf-8", "replace")


def differences(former, now, paths, keys, others):
    found = []
    for path in paths:
        current, entry = now["paths"][path], former.before["paths"][path]
        small = current["kind"] == "file" and current["size"] <= SHOWN_DIFF
        live = Path(path).read_bytes() if small else None
        content = former.content(entry) if entry["kind"] == "file" else None
        sides = {"before": shown(path, current, live), "after": shown(path, entry, content)}
        found.append(dict(sides, before_header=path, after_header=path))
    if keys:
        sides = ["".join(f"{dotted(key)} = {look['sysctls'][key]}\n" for key in keys) for look in (now, former.before)]
        found.append({"before": sides[0], "after": sides[1], "before_header": "/proc/sys", "after_header": "/proc/sys"})
    for name in others:
        sides = {"before": f"{now['live'][name]}\n", "after": f"{former.before['live'][name]}\n"}
        found.append(dict(sides, before_header=name, after_header=name))
    return found


def spare(former, paths, held):
    """(paths to restore, problems of those that stay for the sake of an active engine)."""
    impacts = former.before.get("impact", {})
    text = "an engine is active here, and the impact is {}: --while-serving"
    stay = [problem(path, "refused", text.format(impacts[path])) for path in paths if impacts.get(path) in held]
    return [path for path in paths if impacts.get(path) not in held], stay


def to_restore(former, now):
    """(paths, keys, others) that the run changed and that are not as before it, and notices of keys that came or went."""
    paths, keys = state.differing(former.before, now)
    others = [name for name in live.differing(former.before, now) if not live.stays(name)]
    if former.after is not None:
        ours, values = state.differing(former.before, former.after)
        paths, keys = [path for path in paths if path in ours], [key for key in keys if key in values]
        moved = live.differing(former.before, former.after)
        others = [name for name in others if name in moved]
    lost = [key for key in keys if former.before["sysctls"][key] is None or now["sysctls"][key] is None]
    notices = [notice(dotted(key), "is not there now, or was not before the run") for key in lost]
    return paths, [key for key in keys if key not in lost], others, notices


def rollback(module, former):
    now = state.look_again(former.before)
    now["live"] = live.look(module.run_command, former.before.get("live") or {})
    installed = state.packages(module.run_command, module.get_bin_path)
    paths, keys, others, notices = to_restore(former, now)
    paths, spared = spare(former, paths, module.params["held"])
    notices += beyond(former, now, installed)
    moved = moved_since(former, now, paths, keys, others)
    if moved and not module.params["force"]:
        module.fail_json(
            msg="changed again since the run, so nothing on this node was touched: "
            f"{', '.join(moved)}. Roll back what changed it first, or use --force"
        )
    if not paths and not keys and not others:
        module.exit_json(changed=False, problems=spared, notices=notices, copy={"unchanged": True})
    diff = differences(former, now, paths, keys, others)
    if module.check_mode:
        problems = restored(module, former, now, paths, keys)
        module.exit_json(
            changed=len(problems) < len(paths) + len(keys) + len(others),
            diff=diff,
            problems=spared + problems,
            notices=notices,
            copy={},
        )
    own = module.params["own_run"]
    kept = state.document(state.folder_of(own) / "before.json")
    if kept is None:
        kept = dict(
            state.look(paths, keys, []),
            live={name: now["live"][name] for name in others},
            apply=former.before["apply"],
            packages=installed,
        )
        state.keep(own, kept)
    state.forget_the_end(own)
    copy = state.travelling(own, kept)
    for name in others:
        live.let_go(module.run_command, name, former.before["live"][name])
    problems = spared + restored(module, former, now, paths, keys) + apply(module, former, paths)
    problems += restore_others(module, former, now, others)
    left = dict(state.look_again(kept), live=live.look(module.run_command, kept["live"]), packages=installed)
    state.write_document(state.folder_of(own) / "after.json", left)
    state.prune()
    changed = any(state.differing(kept, left)) or bool(live.differing(kept, left))
    module.exit_json(changed=changed, diff=diff, problems=problems, notices=notices, copy=dict(copy, after=left))


def restored(module, former, now, paths, keys):
    """The problems of putting everything back; in check mode those that can be foreseen."""
    found = [restore_path(module, path, former) for path in order(paths, former.before)]
    found += [restore_key(module, key, former.before["sysctls"][key], now["sysctls"][key]) for key in keys]
    return [each for each in found if each]


def main():
    module = AnsibleModule(
        argument_spec={
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
        former = Former(run, module.params["copy"])
        if former.before is not None:
            rollback(module, former)
    except (OSError, ValueError, KeyError, TypeError) as error:
        module.fail_json(msg=f"what was kept of run {run} is damaged, or this node refuses: {error!r}")
    if former.unchanged:
        module.exit_json(changed=False, problems=[], notices=[], copy={"unchanged": True})
    message = f"neither this node nor the record has a former state of run {run}: nothing was restored"
    module.exit_json(changed=False, problems=[problem("run", "absent", message)], notices=[], copy={})


if __name__ == "__main__":
    main()
