#!/usr/bin/python
"""Rebuilds an initramfs that holds a module and is older than the module's options."""

import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_initramfs
short_description: Rebuild the initramfs that holds an outdated copy of module options
description:
  - The options of a module that the initramfs loads are read from the copy in it.
  - An image without the module is left alone, and so is one that is newer than all `files`.
options:
  names:
    description: Module names.
    type: list
    elements: str
    required: true
  files:
    description: Files that hold their options.
    type: list
    elements: path
    required: true
  changed:
    description: Whether one of them was changed now, or in check mode would be.
    type: bool
    required: true
author: pdctl
"""

RETURN = r"""
results:
  description: "One record an image: key, release, holds, outcome (kept, changed or refused), message."
  returned: always
  type: list
problems:
  description: The refused records.
  returned: always
  type: list
"""

BOOT = Path("/boot")
IMAGE = re.compile(r"^(?:initrd\.img-(?P<debian>.+)|initramfs-(?P<rhel>.+)\.img)$")
# Not booted from in daily use, and made by other means.
APART = re.compile(r"rescue|kdump")


def images():
    """(path, release) of every image."""
    for path in sorted(BOOT.iterdir()) if BOOT.is_dir() else []:
        match = IMAGE.match(path.name)
        if match and not path.is_symlink() and not APART.search(path.name):
            yield path, match.group("debian") or match.group("rhel")


def outdated(path, files, changed):
    if changed:
        return True
    made = path.stat().st_mtime
    return any(Path(each).exists() and Path(each).stat().st_mtime > made for each in files)


def holds(module, path, names):
    """Whether one of the modules is in the image, or None where no tool tells."""
    for tool in ("lsinitramfs", "lsinitrd"):
        found = module.get_bin_path(tool)
        if found:
            code, printed, _said = module.run_command([found, str(path)])
            files = {re.sub(r"\.ko(\.\w+)?$", "", line.rsplit("/", 1)[-1].strip()) for line in printed.splitlines()}
            return bool({name.replace("-", "_") for name in files} & set(names)) if code == 0 else None
    return None


def rebuild(module, path, release):
    """None, or why not."""
    update = module.get_bin_path("update-initramfs")
    dracut = module.get_bin_path("dracut")
    if not update and not dracut:
        return "neither update-initramfs nor dracut is on this node"
    before = path.stat().st_mtime
    command = [update, "-u", "-k", release] if update else [dracut, "--force", str(path), release]
    code, _printed, said = module.run_command(command)
    if code != 0:
        return f"{' '.join(command)}: exit code {code}: {said.strip()[-500:]}"
    return (
        None if path.stat().st_mtime > before else f"{' '.join(command)} said nothing, and {path} is as old as before"
    )


def main():
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "files": {"type": "list", "elements": "path", "required": True},
            "changed": {"type": "bool", "required": True},
        },
        supports_check_mode=True,
    )
    results = []
    for path, release in images():
        record = {"key": str(path), "release": release, "outcome": "kept", "holds": None}
        if outdated(path, module.params["files"], module.params["changed"]):
            record["holds"] = holds(module, path, module.params["names"])
            if record["holds"]:
                why = None if module.check_mode else rebuild(module, path, release)
                record.update({"outcome": "refused", "message": why} if why else {"outcome": "changed"})
        results.append(record)
    moved = [each["key"] for each in results if each["outcome"] == "changed"]
    module.exit_json(
        changed=bool(moved),
        results=results,
        problems=[each for each in results if each["outcome"] == "refused"],
        diff=[{"before_header": key, "after_header": key, "before": "", "after": "rebuilt\n"} for key in moved],
    )


if __name__ == "__main__":
    main()
