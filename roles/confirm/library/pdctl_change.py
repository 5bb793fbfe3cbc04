#!/usr/bin/python
"""Makes a change of live settings that the node undoes by itself unless it is confirmed in time."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_change
short_description: Arm, make, watch, confirm or undo a change that can cut the node off
description:
  - A timer of systemd is armed first; its script undoes the change. Then, a moment later, a second script makes it.
  - Both lie in a folder of the change below /var/lib/pdctl/changes, for root only.
  - Confirming and undoing exclude each other; whichever comes first holds.
options:
  phase:
    description:
      - "ready: whether the node can undo a change; begin: arm and start; status; confirm: disarm."
      - "undo: at once, instead of when the time is up."
      - "leftovers: wait for changes of earlier runs to be over, and say how they ended; forget: remove what is over."
    type: str
    choices: [ready, begin, status, confirm, undo, leftovers, forget]
    required: true
  change:
    description: Id of the change, `<run>.<area>`.
    type: str
    default: ""
  window_s:
    description: Seconds until the node undoes the change.
    type: int
    default: 0
  steps:
    description: Commands that make the change, each a list of words.
    type: list
    elements: list
    default: []
  undo:
    description: Commands that undo it.
    type: list
    elements: list
    default: []
author: pdctl
"""

RETURN = r"""
state:
  description: "absent, armed, undoing, undone or stuck: unconfirmed, and no timer will undo it."
  returned: by status, confirm and undo
  type: str
made:
  description: Whether every step had its turn.
  returned: by status
  type: bool
log:
  description: One line a step that failed.
  returned: by status, confirm and undo
  type: list
why:
  description: Why the node cannot undo a change by itself; empty where it can.
  returned: by ready
  type: str
changes:
  description: "What earlier runs left: change, state, log."
  returned: by leftovers
  type: list
"""

FOLDER = Path("/var/lib/pdctl/changes")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CHANGE = re.compile(r"^\d{8}T\d{6}Z-[0-9a-f]{6}\.[a-z0-9_]{1,32}$")
LONGEST_WINDOW_S = 3600
# Of one step, and of all steps of a way back.
STEP_S = 30
UNDO_S = 120
# So that the answer to whoever asked is on its way before the network may go.
HEAD_START_S = 1
LONGEST_LOG = 64 << 10

COMMON = """#!/bin/sh
# Written by pdctl. {what}
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
cd {folder} || exit 1
step() {{
    said=$(timeout {bound} "$@" 2>&1 </dev/null)
    code=$?
    [ "$code" = 0 ] || printf '%s: exit %s: %s\\n' "$*" "$code" "$(printf '%s' "$said" | tr '\\n' ' ')" >>{log}
}}
"""
APPLY = """{steps}
: >made
"""
# mkdir is the one step that only one of two can do.
REVERT = """mkdir claimed 2>/dev/null || exit 0
systemctl stop {apply}.timer {apply}.service 2>/dev/null
{steps}
date +%s >undone.partial && mv undone.partial undone
"""


def units(change):
    run, area = change.split(".")
    return f"pdctl-revert-{run}", f"pdctl-apply-{run}-{area}"


def script(what, folder, log, body):
    return COMMON.format(what=what, folder=shlex.quote(str(folder)), bound=STEP_S, log=log) + body


def lines(steps):
    return "\n".join("step " + " ".join(shlex.quote(str(word)) for word in step) for step in steps)


def keep(path, content, mode=0o600):
    descriptor = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def log_of(folder):
    found = []
    for name in ("apply.log", "revert.log"):
        try:
            found += (folder / name).read_bytes()[:LONGEST_LOG].decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            continue
    return found


def about(folder):
    try:
        return json.loads((folder / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def active(module, unit):
    return module.run_command(["systemctl", "is-active", "--quiet", unit])[0] == 0


def state_of(module, folder):
    """See RETURN."""
    if not folder.is_dir():
        return "absent"
    if (folder / "undone").exists():
        return "undone"
    revert, _apply = units(folder.name)
    # Looked at twice: systemd may be between the timer and what it starts.
    for pause in (0.5, 0):
        if active(module, f"{revert}.timer"):
            return "armed"
        if active(module, f"{revert}.service"):
            return "undoing"
        time.sleep(pause)
        if (folder / "undone").exists():
            return "undone"
    # The live settings went with that boot, and nothing was recorded for the next one.
    return "undone" if about(folder).get("boot") not in (None, boot_id()) else "stuck"


def boot_id():
    return BOOT_ID.read_text(encoding="utf-8").strip()


def timer(module, unit, seconds, path):
    argv = ["systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--on-active={seconds}"]
    argv += ["--timer-property=AccuracySec=100ms", "/bin/sh", str(path)]
    code, _printed, words = module.run_command(argv)
    return code, words


def arm(module, unit, seconds, path):
    code, words = timer(module, unit, seconds, path)
    if code != 0 or not active(module, f"{unit}.timer"):
        module.fail_json(
            msg=f"the node cannot be armed to undo the change, so it was not made: {words.strip() or code}"
        )


def ready(module):
    """Says why the node could not undo a change by itself, or nothing."""
    missing = [name for name in ("systemd-run", "systemctl", "timeout") if not module.get_bin_path(name)]
    if not Path("/run/systemd/system").is_dir():
        missing = ["systemd as the first process"]
    why = f"{', '.join(missing)} is not there, so nothing could undo the change: it was not made" if missing else ""
    module.exit_json(changed=False, why=why)


def begin(module, folder):
    window_s = module.params["window_s"]
    if not 0 < window_s <= LONGEST_WINDOW_S:
        module.fail_json(msg=f"a window of {window_s} s: it must be 1 to {LONGEST_WINDOW_S}")
    revert, apply = units(folder.name)
    try:
        FOLDER.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        module.fail_json(msg=f"the way back cannot be kept on the node, so the change was not made: {error}")
    try:
        keep(folder / "about.json", json.dumps({"boot": boot_id(), "window_s": window_s, "armed": time.time()}))
        steps = lines(module.params["steps"])
        keep(
            folder / "apply",
            script("A change that waits to be confirmed.", folder, "apply.log", APPLY.format(steps=steps)),
        )
        steps = REVERT.format(apply=apply, steps=lines(module.params["undo"]))
        keep(folder / "revert", script("Undoes that change.", folder, "revert.log", steps))
    except OSError as error:
        shutil.rmtree(str(folder), ignore_errors=True)
        module.fail_json(msg=f"the way back cannot be kept on the node, so the change was not made: {error}")
    try:
        arm(module, revert, window_s, folder / "revert")
    except SystemExit:
        shutil.rmtree(str(folder), ignore_errors=True)
        raise
    code, words = timer(module, apply, HEAD_START_S, folder / "apply")
    if code != 0:
        disarm(module, folder)
        module.fail_json(msg=f"the change could not be started: {words.strip()}")
    module.exit_json(changed=False)


def disarm(module, folder):
    """Whether it was still there to be disarmed."""
    try:
        (folder / "claimed").mkdir()
    except FileExistsError:
        return False
    revert, apply = units(folder.name)
    module.run_command(["systemctl", "stop", f"{revert}.timer", f"{apply}.timer"])
    if active(module, f"{revert}.timer"):
        module.fail_json(msg=f"{revert}.timer does not stop; it finds nothing to undo, since the change is confirmed")
    shutil.rmtree(str(folder))
    return True


def wait_until_undone(module, folder, seconds):
    end = time.monotonic() + seconds
    while state_of(module, folder) in ("armed", "undoing", "stuck") and time.monotonic() < end:
        time.sleep(0.2)
    return state_of(module, folder)


def confirm(module, folder):
    if not folder.is_dir():
        module.fail_json(msg=f"there is no change {folder.name} to confirm")
    if disarm(module, folder):
        module.exit_json(changed=False, state="absent", log=[])
    state = wait_until_undone(module, folder, UNDO_S)
    module.exit_json(changed=False, state=state, log=log_of(folder))


def undo(module, folder):
    if state_of(module, folder) == "armed":
        # Its own session: the change may have to be undone although this connection goes.
        subprocess.Popen(
            ["/bin/sh", str(folder / "revert")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    state = wait_until_undone(module, folder, UNDO_S)
    module.run_command(["systemctl", "stop", f"{units(folder.name)[0]}.timer"])
    module.exit_json(changed=False, state=state, log=log_of(folder))


def status(module, folder):
    made = (folder / "made").exists()
    module.exit_json(changed=False, state=state_of(module, folder), made=made, log=log_of(folder))


def leftovers(module):
    found = []
    folders = sorted(each for each in FOLDER.glob("*") if CHANGE.match(each.name)) if FOLDER.is_dir() else []
    for folder in folders:
        kept = about(folder)
        # By the wall clock only how long to look; the timer itself knows when.
        left = min(LONGEST_WINDOW_S, max(0, kept.get("armed", 0) + kept.get("window_s", 0) - time.time()))
        state = state_of(module, folder)
        if state in ("armed", "undoing"):
            state = wait_until_undone(module, folder, left + UNDO_S)
        if state != "absent":
            found.append({"change": folder.name, "state": state, "log": log_of(folder)})
    module.exit_json(changed=False, changes=found)


def forget(module, folder):
    if state_of(module, folder) == "undone" and not module.check_mode:
        shutil.rmtree(str(folder))
    module.exit_json(changed=False)


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {
                "type": "str",
                "choices": ["ready", "begin", "status", "confirm", "undo", "leftovers", "forget"],
                "required": True,
            },
            "change": {"type": "str", "default": ""},
            "window_s": {"type": "int", "default": 0},
            "steps": {"type": "list", "elements": "list", "default": []},
            "undo": {"type": "list", "elements": "list", "default": []},
        },
        supports_check_mode=True,
    )
    phase, change = module.params["phase"], module.params["change"]
    if phase == "leftovers":
        leftovers(module)
    if phase == "ready":
        ready(module)
    if not CHANGE.match(change):
        module.fail_json(msg=f"no id of a change: {change}")
    {"begin": begin, "status": status, "confirm": confirm, "undo": undo, "forget": forget}[phase](
        module, FOLDER / change
    )


if __name__ == "__main__":
    main()
