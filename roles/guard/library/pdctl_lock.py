#!/usr/bin/python
"""The operator lock of a node: at most one run changes it at a time, and it says whose, from where and since when."""

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

from ansible.module_utils import pdctl_state as state
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_lock
short_description: Take or free the operator lock of a node
description:
  - The lock is /var/lib/pdctl/lock.json. A run that another one holds off fails, and has touched nothing.
  - It is taken over from the same run (which goes on), from a run known to be dead, and from one that began long ago
    and has no process on the node; from any other only when forced.
  - What an earlier holder still runs on the node is waited for; what only waits for input that never comes is ended.
options:
  phase:
    description: begin takes the lock, end frees it.
    type: str
    choices: [begin, end]
    required: true
  run:
    description: Id of the run.
    type: str
    required: true
  holder:
    description: "What the lock says of the run: by, from, command."
    type: dict
    default: {}
  dead:
    description: Runs that the caller knows to have ended, or to have been killed.
    type: list
    elements: str
    default: []
  force:
    description: Break the lock of whoever holds it.
    type: bool
    default: false
author: pdctl
"""

RETURN = r"""
held_by:
  description: "Who holds the node: run, by, from, since (seconds since 1970), command."
  returned: when it is held by another
  type: dict
notices:
  description: "From whom the lock was taken, and why: role, key, message."
  returned: always
  type: list
"""

LOCK = state.KEPT.parent / "lock.json"
# Set by the playbook for every task: what carries it was started by that run.
RUN_VARIABLE = "PDCTL_RUN"
# No run lasts as long on one node.
ABANDONED_S = 12 * 3600
# 31 December 9999: what is later was not written by a clock.
LATEST = 253402300800
# read(2) of descriptor 0, on x86-64 and on 64-bit Arm; proc(5), /proc/PID/syscall.
READING = (["0", "0x0"], ["63", "0x0"])
# A task of an earlier try may still install packages; shorter than ansible.cfg's task_timeout.
PATIENCE_S = 600.0
EXCLUSION_S = 10.0
LARGEST_ENVIRONMENT = 1 << 20


@contextlib.contextmanager
def alone():
    """Nobody else reads and replaces the lock meanwhile."""
    LOCK.parent.mkdir(mode=0o755, exist_ok=True)
    descriptor = os.open(str(LOCK.with_name(".lock")), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + EXCLUSION_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def holder_of():
    """What the lock says, or None. A damaged one is held by nobody that can be named."""
    try:
        held = state.document(LOCK)
        if held is not None and not (isinstance(held.get("run"), str) and 0 <= held.get("since", -1) < LATEST):
            raise ValueError(f"{LOCK} names no run")
    except (TypeError, ValueError) as error:
        return {"run": "", "by": "?", "from": "?", "since": int(LOCK.stat().st_mtime), "command": str(error)}
    return held


def ancestors():
    found, process = set(), os.getpid()
    while process > 1:
        found.add(process)
        try:
            process = int(Path("/proc", str(process), "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def carrying(run):
    """[(pid, command line)] of what the run has started on this node and still runs; not what leads to this process."""
    mark, own, found = f"{RUN_VARIABLE}={run}".encode("ascii"), ancestors(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        try:
            with (entry / "environ").open("rb") as stream:
                if mark not in stream.read(LARGEST_ENVIRONMENT).split(b"\0"):
                    continue
            command = (entry / "cmdline").read_bytes()[:200].replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        found.append((int(entry.name), command.strip()))
    return found


def waits_for_input(process):
    """Whether it reads its standard input: a module whose connection was lost on the way, and that nobody goes on sending."""
    try:
        return Path("/proc", str(process), "syscall").read_text(encoding="ascii").split()[:2] in READING
    except OSError:
        return False


def wait_for_leftovers(module, run):
    end = time.monotonic() + PATIENCE_S
    while True:
        left = carrying(run)
        if not left:
            return
        for pid, _command in left:
            if waits_for_input(pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            pid, command = left[0]
            module.fail_json(
                msg=f"what run {run} began on this node still runs: {pid} ({command}): nothing was touched"
            )
        time.sleep(0.2)


def moment():
    """The boot of this node, and the seconds since it. A clock that is set (the role `time` does it) moves neither."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return {"boot": boot, "uptime": float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])}
    except (OSError, ValueError, IndexError):
        return {}


def age_s(held):
    now = moment()
    if now and held.get("boot") == now["boot"] and isinstance(held.get("uptime"), (int, float)):
        return max(0, now["uptime"] - held["uptime"])
    return max(0, time.time() - held["since"])


def told(held):
    age = int(age_s(held))
    lasted = f"{age // 3600} h {age % 3600 // 60} min" if age >= 3600 else f"{age // 60} min"
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(held["since"]))
    who = f"{held.get('by', '?')} on {held.get('from', '?')}"
    return f"run {held.get('run') or '?'} ({held.get('command', '?')}) of {who}, since {since} ({lasted})"


def why_not_his(module, held):
    """Why the lock may be taken from its holder, or None."""
    if held["run"] == module.params["run"]:
        return "the same run goes on"
    if held["run"] in module.params["dead"]:
        return "that run is known to be over"
    if age_s(held) > ABANDONED_S and not carrying(held["run"]):
        return "that run began long ago and has no process here"
    return "--break-lock" if module.params["force"] else None


def begin(module):
    run, notices = module.params["run"], []
    with alone() if LOCK.parent.is_dir() or not module.check_mode else contextlib.ExitStack():
        held = holder_of()
        reason = why_not_his(module, held) if held else None
        if held and reason is None:
            message = f"{told(held)} holds this node: nothing was touched"
            if module.check_mode:
                notice = {"role": "guard", "key": "lock", "message": f"{told(held)} holds this node"}
                module.exit_json(changed=False, held_by=held, notices=[notice])
            module.fail_json(msg=f"{message}. Wait for its end; where it is dead, --break-lock", held_by=held)
        if module.check_mode:
            module.exit_json(changed=False, notices=[])
        if held and held["run"] != run:
            message = f"taken from {told(held)}: {reason}"
            notices.append({"role": "guard", "key": "lock", "message": message})
        mine = dict(module.params["holder"], run=run, since=int(time.time()), **moment())
        if held:
            mine["taken_from"] = {key: held.get(key) for key in ("run", "by", "from", "since")}
        state.write_document(LOCK, mine)
    if held and held["run"]:
        wait_for_leftovers(module, held["run"])
    module.exit_json(changed=False, notices=notices)


def end(module):
    if not module.check_mode and LOCK.parent.is_dir():
        with alone():
            held = holder_of()
            if held and held["run"] == module.params["run"]:
                LOCK.unlink()
    module.exit_json(changed=False, notices=[])


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["begin", "end"], "required": True},
            "run": {"type": "str", "required": True},
            "holder": {"type": "dict", "default": {}},
            "dead": {"type": "list", "elements": "str", "default": []},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        {"begin": begin, "end": end}[module.params["phase"]](module)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{LOCK}: {error}")


if __name__ == "__main__":
    main()
