#!/usr/bin/python
"""Writes kernel parameters to /proc/sys and reads each one back; says for every key what the kernel made of it."""

import errno
import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_sysctl
short_description: Set kernel parameters live and read them back
description:
  - "`sysctl -w` exits 0 when the kernel refuses a value. This module writes the file itself and keeps the errno."
  - Every key ends as one of kept, changed, refused, absent, clamped or overridden; the last four are problems.
options:
  settings:
    description: Keys in sysctl notation with the values that they must have. A null value leaves the key alone.
    type: dict
    required: true
  record:
    description: The drop-in that sets the same values at boot; later drop-ins with another value are problems.
    type: path
    required: true
author: pdctl
"""

RETURN = r"""
results:
  description: "One record a key: key, wanted, before, live, outcome, errno, errno_name, message."
  returned: always
  type: list
problems:
  description: The records whose outcome is refused, absent, clamped or overridden.
  returned: always
  type: list
"""

PROC = Path("/proc/sys")
# sysctl.d(5): the same file name in an earlier directory hides it in a later one; then all sort by name.
DROP_INS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
# The `default` entry of the neighbour table only seeds interfaces that appear later (kernel neigh_copy_dflt_parms).
NEIGHBOUR_DEFAULT = re.compile(r"^(net/ipv[46]/neigh)/default/(?!gc_)(\w+)$")


def path_of(key):
    """sysctl.d(5): when the first separator is a slash, dots belong to names (eth0.100)."""
    first = re.search(r"[./]", key)
    return key if first and first.group() == "/" else key.replace(".", "/")


def words(text):
    return " ".join(str(text).split())


def read(path):
    return words((PROC / path).read_text(encoding="utf-8"))


def write(path, value):
    """One write(2), so that its errno is the kernel's answer to this value."""
    descriptor = os.open(str(PROC / path), os.O_WRONLY)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def failure(outcome, error, doing):
    name = errno.errorcode.get(error.errno, str(error.errno))
    message = f"{doing}: {os.strerror(error.errno)} ({name})"
    return {"outcome": outcome, "errno": error.errno, "errno_name": name, "message": message}


def apply(path, wanted, check_mode):
    """Bring one key to its value, or in check mode say what would come of it."""
    record = {"key": path, "wanted": wanted, "before": None, "live": None, "outcome": "kept"}
    try:
        record["before"] = record["live"] = read(path)
    except OSError as error:
        outcome = "absent" if error.errno == errno.ENOENT else "refused"
        return dict(record, **failure(outcome, error, "reading"))
    if record["live"] == wanted:
        return record
    if check_mode:
        try:
            # Opening asks for permission and changes nothing.
            os.close(os.open(str(PROC / path), os.O_WRONLY))
        except OSError as error:
            return dict(record, **failure("refused", error, "opening"))
        return dict(record, outcome="changed")
    try:
        write(path, wanted)
    except OSError as error:
        return dict(record, **failure("refused", error, "writing"))
    record["live"] = read(path)
    if record["live"] == wanted:
        return dict(record, outcome="changed")
    return dict(record, outcome="clamped", message=f"the kernel took the write and shows {record['live']}")


def targets(settings):
    """(path, wanted) of every key, and of every interface that a neighbour default does not reach."""
    for key, value in settings.items():
        if value is None:
            continue
        path = path_of(key)
        yield path, words(value)
        template = NEIGHBOUR_DEFAULT.match(path)
        if template:
            for entry in sorted(PROC.glob(f"{template.group(1)}/*/{template.group(2)}")):
                interface = str(entry.relative_to(PROC))
                if interface != path:
                    yield interface, words(value)


def later_values(record):
    """Settings that sysctl.d applies after the record: [(pattern, value, file, line)]."""
    visible = {}
    for folder in reversed(DROP_INS):
        visible.update({path.name: path for path in Path(folder).glob("*.conf")})
    found = []
    for name in sorted(visible):
        if name <= Path(record).name:
            continue
        try:
            lines = visible[name].read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            # A link to nothing sets nothing.
            continue
        for number, line in enumerate(lines, 1):
            setting = re.match(r"^\s*-?\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$", line)
            if setting:
                found.append((path_of(setting.group(1)), words(setting.group(2)), str(visible[name]), number))
    return found


def overridden(path, wanted, later):
    """The record of the last later drop-in that gives `path` another value at boot, or None."""
    matching = [entry for entry in later if fnmatchcase(path, entry[0])]
    if not matching or matching[-1][1] == wanted:
        return None
    _pattern, value, name, line = matching[-1]
    message = f"{name}:{line} sets {value} at boot, after the record"
    return {"key": path, "wanted": wanted, "live": value, "outcome": "overridden", "message": message}


def main():
    module = AnsibleModule(
        argument_spec={"settings": {"type": "dict", "required": True}, "record": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    results, later = [], later_values(module.params["record"])
    for path, wanted in targets(module.params["settings"]):
        results.append(apply(path, wanted, module.check_mode))
        conflict = overridden(path, wanted, later)
        if conflict:
            results.append(conflict)
    for result in results:
        # Reported in the notation of the policy; an interface with a dot in its name keeps its slashes.
        if "." not in result["key"]:
            result["key"] = result["key"].replace("/", ".")
    moved = [
        r for r in results if r["outcome"] == "changed" or (r["outcome"] == "clamped" and r["live"] != r["before"])
    ]
    shown = "wanted" if module.check_mode else "live"
    module.exit_json(
        changed=bool(moved),
        results=results,
        problems=[r for r in results if r["outcome"] not in ("kept", "changed")],
        diff={
            "before_header": "/proc/sys",
            "after_header": "/proc/sys",
            "before": "".join(f"{r['key']} = {r['before']}\n" for r in moved),
            "after": "".join(f"{r['key']} = {r[shown]}\n" for r in moved),
        },
    )


if __name__ == "__main__":
    main()
