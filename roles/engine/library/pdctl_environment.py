#!/usr/bin/python
"""Makes the engine's virtual environment from a folder of wheels on the node; no package index is asked."""

import hashlib
import json
import re
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_environment
short_description: A virtual environment from an offline wheelhouse
description:
  - The environment is named after the wheels, so that another set of wheels makes another one and the former stays whole.
  - One that was not finished is made anew. It is proven by importing what it is for.
options:
  wheelhouse:
    description: Folder of wheels on the node.
    type: path
    required: true
  prefix:
    description: Folder in which environments are made.
    type: path
    required: true
  requirements:
    description: What pip installs from the wheels.
    type: list
    elements: str
    required: true
  minimum_python:
    description: The oldest Python that the engine runs on.
    type: str
    required: true
  proof:
    description: The module whose import proves the environment.
    type: str
    required: true
author: pdctl
"""

RETURN = r"""
path:
  description: The environment, or what it would be called; empty where it cannot be made.
  returned: always
  type: str
problem:
  description: "Record why there is none: key, outcome, message; empty otherwise."
  returned: always
  type: dict
"""

PYTHONS = ("python3", "python3.13", "python3.12", "python3.11")
MARK = ".pdctl-complete"


def digest_of(wheels, requirements):
    """Names and sizes tell wheels apart: an index never gives two files of one name."""
    listed = [[wheel.name, wheel.stat().st_size] for wheel in wheels]
    return hashlib.sha256(json.dumps([listed, requirements]).encode("utf-8")).hexdigest()[:12]


def numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def python_for(module, minimum):
    """(program or None, versions that are there)."""
    seen = []
    for name in PYTHONS:
        program = module.get_bin_path(name)
        if not program:
            continue
        code, printed, _said = module.run_command([program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        if code == 0 and numbers(printed) >= numbers(minimum):
            return program, seen
        seen.append(f"{name} is {printed.strip() or 'broken'}")
    return None, seen


def make(module, target, python, wheelhouse):
    """None, or why not."""
    pips = sorted(wheelhouse.glob("pip-*.whl"))
    # Debian's python3 has no ensurepip; a wheel of pip runs as it is.
    steps = [[python, "-m", "venv", *(["--without-pip"] if pips else []), str(target)]]
    own = str(target / "bin" / "python")
    pip = [own, str(pips[-1] / "pip")] if pips else [own, "-m", "pip"]
    offline = ["install", "--no-index", "--find-links", str(wheelhouse), "--disable-pip-version-check", "--no-input"]
    steps.append([*pip, *offline, *module.params["requirements"]])
    steps.append([own, "-c", f"import {module.params['proof']}"])
    for argv in steps:
        code, printed, said = module.run_command(
            argv, environ_update={"PYTHONUTF8": "1", "PIP_CONFIG_FILE": "/dev/null"}
        )
        if code != 0:
            words = (said.strip() or printed.strip())[-800:]
            return f"{' '.join(argv)}: exit code {code}: {words}"
    (target / MARK).touch()
    return None


def main():
    module = AnsibleModule(
        argument_spec={
            "wheelhouse": {"type": "path", "required": True},
            "prefix": {"type": "path", "required": True},
            "requirements": {"type": "list", "elements": "str", "required": True},
            "minimum_python": {"type": "str", "required": True},
            "proof": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    wheelhouse = Path(module.params["wheelhouse"])
    wheels = sorted(wheelhouse.glob("*.whl")) if wheelhouse.is_dir() else []

    def refuse(outcome, message):
        problem = {"key": "environment", "outcome": outcome, "message": message}
        module.exit_json(changed=False, path="", problem=problem)

    if not wheels:
        refuse("absent", f"no wheels in {wheelhouse} on this node: copy them there, or mount the folder")
    python, seen = python_for(module, module.params["minimum_python"])
    if python is None:
        wanted = module.params["minimum_python"]
        refuse(
            "absent", f"the engine needs Python {wanted} or newer on this node: {', '.join(seen) or 'none is there'}"
        )
    target = Path(module.params["prefix"]) / f"engine-{digest_of(wheels, module.params['requirements'])}"
    if (target / MARK).exists():
        module.exit_json(changed=False, path=str(target), problem={})
    if not module.check_mode:
        if target.exists():
            shutil.rmtree(str(target))
        why = make(module, target, python, wheelhouse)
        if why:
            shutil.rmtree(str(target), ignore_errors=True)
            refuse("refused", why)
    module.exit_json(changed=True, path=str(target), problem={})


if __name__ == "__main__":
    main()
