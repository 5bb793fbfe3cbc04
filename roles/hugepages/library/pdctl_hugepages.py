#!/usr/bin/python
"""Reserves huge pages of the default size, and reads back how many the kernel gave."""

import errno
import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_hugepages
short_description: Reserve huge pages and tell how many there are
description:
  - The kernel takes any number and reserves as many as it finds whole memory for, without an error.
options:
  pages:
    description: How many pages of the default size.
    type: int
    required: true
author: pdctl
"""

RETURN = r"""
result:
  description: "Record: key, wanted, before, live, outcome (kept, changed, refused, absent), errno, errno_name, message."
  returned: always
  type: dict
problems:
  description: The record where it is refused or absent.
  returned: always
  type: list
"""

PATH = Path("/proc/sys/vm/nr_hugepages")


def read():
    return int(PATH.read_text(encoding="utf-8"))


def write(pages):
    """One write(2), so that its errno is the kernel's answer."""
    descriptor = os.open(str(PATH), os.O_WRONLY)
    try:
        os.write(descriptor, b"%d\n" % pages)
    finally:
        os.close(descriptor)


def failure(record, error, doing):
    name = errno.errorcode.get(error.errno, str(error.errno))
    outcome = "absent" if error.errno == errno.ENOENT else "refused"
    message = f"{doing}: {os.strerror(error.errno)} ({name})"
    return dict(record, outcome=outcome, errno=error.errno, errno_name=name, message=message)


def bring(pages, check_mode):
    record = {"key": "vm.nr_hugepages", "wanted": pages, "before": None, "live": None, "outcome": "kept"}
    try:
        record["before"] = record["live"] = read()
        if record["live"] == pages:
            return record
        if check_mode:
            # Opening asks for permission and changes nothing.
            os.close(os.open(str(PATH), os.O_WRONLY))
            return dict(record, outcome="changed")
        write(pages)
        record["live"] = read()
    except OSError as error:
        return failure(record, error, "opening" if check_mode else "writing")
    if record["live"] == pages:
        return dict(record, outcome="changed")
    message = (
        "the kernel found no whole memory for more; the boot will, from the record"
        if record["live"] < pages
        else "the pages above it are in use; they go when their program ends"
    )
    return dict(record, outcome="refused", message=message)


def main():
    module = AnsibleModule(argument_spec={"pages": {"type": "int", "required": True}}, supports_check_mode=True)
    if module.params["pages"] < 0:
        module.fail_json(msg=f"huge pages: {module.params['pages']} is below 0")
    result = bring(module.params["pages"], module.check_mode)
    changed = result["outcome"] == "changed" or result["live"] != result["before"]
    shown = result["wanted"] if module.check_mode else result["live"]
    module.exit_json(
        changed=changed,
        result=result,
        problems=[] if result["outcome"] in ("kept", "changed") else [result],
        diff={
            "before_header": "/proc/sys/vm/nr_hugepages",
            "after_header": "/proc/sys/vm/nr_hugepages",
            "before": f"{result['before']}\n" if changed else "",
            "after": f"{shown}\n" if changed else "",
        },
    )


if __name__ == "__main__":
    main()
