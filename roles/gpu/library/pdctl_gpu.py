#!/usr/bin/python
"""Looks at the NVIDIA GPUs of a node, brings their modes and peer memory to what is wanted, and reads everything back."""

import platform
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_gpu
short_description: Modes, peer memory and stray contexts of NVIDIA GPUs
description:
  - Without a wanted value it only looks. A process is never ended here.
options:
  persistence:
    description: set switches persistence mode on by nvidia-smi, expect only says where it is off.
    type: str
    choices: [leave, expect, set]
    default: leave
  compute_mode:
    description: The compute mode of every GPU, as nvidia-smi names it; empty leaves it alone.
    type: str
    default: ""
  peer_memory:
    description: Whether to load nvidia_peermem where the NIC reaches GPU memory only by it.
    type: bool
    default: false
  ghost_min_mib:
    description: Least memory of a process that holds a CUDA context and no data.
    type: int
    required: true
  ghost_max_mib:
    description: Most memory of such a process.
    type: int
    required: true
author: pdctl
"""

RETURN = r"""
skipped_for:
  description: Why there is nothing to do here; empty when there is a driver.
  returned: always
  type: str
gpus:
  description: "One record a GPU: index, uuid, name, compute_mode, persistence_mode."
  returned: always
  type: list
daemon:
  description: "nvidia-persistenced: unit (whether it is there), command (its ExecStart)."
  returned: always
  type: dict
way:
  description: "How a NIC reaches GPU memory: dma-buf, nvidia_peermem, or empty with no RDMA device or no way."
  returned: always
  type: str
stray:
  description: "Processes that hold an empty context: gpu, pid, name, used_mib."
  returned: always
  type: list
problems:
  description: "Records: key, outcome, wanted, live, message."
  returned: always
  type: list
"""

ROOT = Path("/")
FIELDS = ("index", "uuid", "name", "compute_mode", "persistence_mode")
UNIT = "nvidia-persistenced.service"
# Names of nvidia-smi(1), -c.
MODES = {"Default": "0", "Prohibited": "2", "Exclusive_Process": "3"}
# Exports of GPU memory as DMA-BUF: linux 5.12, and the open NVIDIA modules.
DMA_BUF_KERNEL = (5, 12)
# The server of the multi-process service holds a context for its clients.
MPS = "nvidia-cuda-mps"


def reason_to_skip():
    tegra = ROOT / "proc/device-tree/compatible"
    if (ROOT / "etc/nv_tegra_release").exists() or (tegra.exists() and b"nvidia,tegra" in tegra.read_bytes()):
        return (
            "a Jetson (L4T): its GPU is part of the chip, shares the memory of the CPU, is always on, and has neither "
            "nvidia-persistenced nor nvidia-peermem; power modes are nvpmodel's"
        )
    if (ROOT / "proc/driver/nvidia/version").exists():
        return ""
    if any(vendor_of(path) == "0x10de" for path in (ROOT / "sys/bus/pci/devices").glob("*")):
        return "an NVIDIA GPU is here, and no NVIDIA driver is loaded: install the driver, then run this role again"
    return "no NVIDIA GPU and no NVIDIA driver is on this node"


def vendor_of(device):
    """Of a display controller; others of that maker are bridges and sound."""
    try:
        is_display = (device / "class").read_text(encoding="utf-8").startswith("0x03")
        return (device / "vendor").read_text(encoding="utf-8").strip() if is_display else ""
    except OSError:
        return ""


def query(module):
    """(records of the GPUs, what nvidia-smi said instead)."""
    code, printed, said = module.run_command(["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"])
    rows = [[cell.strip() for cell in line.split(",")] for line in printed.splitlines()]
    if code != 0 or not rows or any(len(row) != len(FIELDS) for row in rows):
        return [], (said.strip() or printed.strip() or "nvidia-smi printed nothing")
    return [dict(zip(FIELDS, row)) for row in rows], ""  # noqa: B905 (strict= needs Python 3.10; the lengths are equal)


def processes(module):
    """(uuid, pid, name, MiB or None) of every process with a context."""
    fields = "gpu_uuid,pid,process_name,used_gpu_memory"
    _code, printed, _said = module.run_command(
        ["nvidia-smi", f"--query-compute-apps={fields}", "--format=csv,noheader"]
    )
    for line in printed.splitlines():
        # A name may hold commas.
        match = re.match(r"^(GPU-\S+|MIG-\S+), (\d+), (.*), (?:(\d+) MiB|\[.*\])$", line)
        if match:
            yield match.group(1), int(match.group(2)), match.group(3), int(match.group(4)) if match.group(4) else None


def stray(rows, least, most):
    """Empty contexts on a GPU that others use, or of a process that works on another GPU. Memory that is not shown is none."""
    rows = [row for row in rows if MPS not in row[2]]
    found = []
    for uuid, pid, name, used in rows:
        if used is None or not least <= used <= most:
            continue
        works_elsewhere = any(row[1] == pid and row[0] != uuid and (row[3] or 0) > most for row in rows)
        if works_elsewhere or sum(row[0] == uuid for row in rows) > 1:
            found.append({"gpu": uuid, "pid": pid, "name": name, "used_mib": used})
    return found


def daemon(module):
    _code, printed, _said = module.run_command(["systemctl", "show", "--property=LoadState,ExecStart", "--", UNIT])
    state = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    command = re.search(r"argv\[\]=(.*?) ;", state.get("ExecStart", ""))
    return {"unit": state.get("LoadState") == "loaded", "command": command.group(1) if command else ""}


def way_to_memory(module):
    """(dma-buf, nvidia_peermem or empty; a problem or None)."""
    if not any((ROOT / "sys/class/infiniband").glob("*")):
        return "", None
    if (ROOT / "sys/module/nvidia_peermem").is_dir():
        return "nvidia_peermem", None
    _code, licence, _said = module.run_command(["modinfo", "-F", "license", "nvidia"])
    kernel = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    if "GPL" in licence and kernel >= DMA_BUF_KERNEL:
        return "dma-buf", None
    if module.run_command(["modinfo", "-F", "name", "nvidia_peermem"])[0] == 0:
        return "nvidia_peermem", None
    message = (
        "a NIC cannot reach GPU memory: this kernel has no nvidia_peermem, and the driver's modules are not the open ones, "
        "which need none. Install the open NVIDIA modules, or the RDMA stack first and the driver after it"
    )
    return "", {"key": "peer memory", "outcome": "absent", "message": message}


def load_peermem(module):
    """(whether it was loaded now, a problem or None)."""
    if (ROOT / "sys/module/nvidia_peermem").is_dir():
        return False, None
    if module.check_mode:
        return True, None
    code, _printed, said = module.run_command(["modprobe", "nvidia_peermem"])
    if code == 0:
        return True, None
    why = "it was built against another RDMA stack than the loaded one" if "nvalid argument" in said else "see dmesg"
    message = f"modprobe: {said.strip()}: {why}"
    return False, {"key": "nvidia_peermem", "outcome": "refused", "message": message}


def bring(module, gpus, field, wanted, flags):
    """(UUIDs that were changed, problems). flags: of nvidia-smi, that set the field on one GPU."""
    if wanted is None:
        return [], []
    moved = [gpu["uuid"] for gpu in gpus if gpu[field] != wanted]
    if module.check_mode:
        return moved, []
    said = {uuid: module.run_command(["nvidia-smi", "-i", uuid, *flags]) for uuid in moved}
    now = {gpu["uuid"]: gpu[field] for gpu in (query(module)[0] if moved else gpus)}
    changed, problems = [], []
    for uuid in moved:
        if now.get(uuid) == wanted:
            changed.append(uuid)
            continue
        code, printed, error = said[uuid]
        message = (error.strip() or printed.strip()) if code != 0 else "nvidia-smi took it and shows another"
        record = {"key": f"{uuid} {field}", "outcome": "refused", "wanted": wanted, "live": now.get(uuid)}
        problems.append(dict(record, message=message))
    return changed, problems


def unkept(gpu):
    record = {"key": f"{gpu['uuid']} persistence_mode", "outcome": "refused", "wanted": "Enabled"}
    return dict(record, live=gpu["persistence_mode"], message=f"{UNIT} runs, and this GPU is not kept initialised")


def main():
    module = AnsibleModule(
        argument_spec={
            "persistence": {"type": "str", "choices": ["leave", "expect", "set"], "default": "leave"},
            "compute_mode": {"type": "str", "default": ""},
            "peer_memory": {"type": "bool", "default": False},
            "ghost_min_mib": {"type": "int", "required": True},
            "ghost_max_mib": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    empty = {"gpus": [], "daemon": {"unit": False, "command": ""}, "way": "", "stray": [], "problems": []}
    reason = reason_to_skip()
    if reason:
        module.exit_json(changed=False, skipped_for=reason, **empty)
    if asked["compute_mode"] and asked["compute_mode"] not in MODES:
        module.fail_json(msg=f"gpu.compute_mode: {asked['compute_mode']} is none of {', '.join(MODES)}")
    gpus, said = query(module)
    if not gpus:
        problem = {"key": "nvidia-smi", "outcome": "refused", "message": f"the driver does not answer: {said}"}
        module.exit_json(changed=False, skipped_for="", **dict(empty, problems=[problem]))
    before = {gpu["uuid"]: gpu for gpu in gpus}
    changed, problems, lines = False, [], []
    wanted = {
        "persistence_mode": ("Enabled" if asked["persistence"] == "set" else None, ["-pm", "1"]),
        "compute_mode": (asked["compute_mode"] or None, ["-c", MODES.get(asked["compute_mode"], "")]),
    }
    for field, (value, flags) in wanted.items():
        moved, refused = bring(module, gpus, field, value, flags)
        lines += [(f"{uuid} {field}", before[uuid][field], value) for uuid in moved]
        problems += refused
    problems += [
        unkept(gpu) for gpu in gpus if asked["persistence"] == "expect" and gpu["persistence_mode"] != "Enabled"
    ]
    way, problem = way_to_memory(module)
    if asked["peer_memory"] and way == "nvidia_peermem":
        loaded, problem = load_peermem(module)
        lines += [("module nvidia_peermem", "absent", "loaded")] if loaded else []
    problems += [problem] if problem else []
    changed = bool(lines)
    module.exit_json(
        changed=changed,
        skipped_for="",
        gpus=gpus if module.check_mode or not changed else query(module)[0],
        daemon=daemon(module),
        way=way,
        stray=stray(list(processes(module)), asked["ghost_min_mib"], asked["ghost_max_mib"]),
        problems=problems,
        diff={
            "before_header": "GPUs",
            "after_header": "GPUs",
            "before": "".join(f"{key}: {old}\n" for key, old, _new in lines),
            "after": "".join(f"{key}: {new}\n" for key, _old, new in lines),
        },
    )


if __name__ == "__main__":
    main()
