"""Settings that no driver keeps, made again at boot and when an interface appears: a script, a unit, a rule of udev."""

import os
import shlex
from pathlib import Path

SCRIPTS = Path("/usr/local/lib/pdctl")
UNITS = Path("/etc/systemd/system")
RULES = Path("/etc/udev/rules.d")
DEVICE_CLASS = "/sys/class/infiniband"

SCRIPT = """#!/bin/sh
# Written by pdctl from its policy: {what}. Run by {unit}; each value is read back by `pdctl doctor`.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
failed=0
step() {{
    timeout 30 "$@" </dev/null || {{ failed=1; printf 'failed: %s\\n' "$*" >&2; }}
}}
# The driver of an interface may still be at work on its RDMA device.
timeout 30 udevadm settle </dev/null 2>/dev/null || :
{steps}
exit $failed
"""
UNIT = """# Written by pdctl from its policy.
[Unit]
Description=pdctl: {what}
After=network.target systemd-udev-settle.service
# A node's ports appear one after the other, and each starts it.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/bin/sh {script}

[Install]
WantedBy=multi-user.target
"""
RULE = """# Written by pdctl from its policy: a driver that is loaded again starts from its own settings.
{rows}"""
# Without a name: udev may give the device another one than that of its appearance.
DEVICES = 'ACTION=="add", SUBSYSTEM=="infiniband", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{unit}"\n'
ROW = 'ACTION=="add", SUBSYSTEM=="net", {key}=="{name}", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{unit}"\n'


def unit_of(area):
    return f"pdctl-{area}.service"


def paths(area):
    return [str(SCRIPTS), str(SCRIPTS / area), str(UNITS / unit_of(area)), str(RULES / f"91-pdctl-{area}.rules")]


def files(area, what, ports, steps):
    """Path -> (text, mode). ports: interfaces whose appearance starts the unit; that of any RDMA device does where one has steps.

    steps: (the sysfs folder of an interface or RDMA device, or None; commands): those of one that is not there are left out.
    """
    lines = []
    for folder, commands in steps:
        there = f"[ ! -d {shlex.quote(folder)} ] || " if folder else ""
        lines += [f"{there}step {' '.join(map(shlex.quote, argv))}" for argv in commands]
    _folder, script, unit, rule = paths(area)
    devices = any((folder or "").startswith(f"{DEVICE_CLASS}/") for folder, _commands in steps)
    rows = [DEVICES.format(unit=unit_of(area))] if devices else []
    rows += [ROW.format(key=key, name=name, unit=unit_of(area)) for name in sorted(ports) for key in ("KERNEL", "NAME")]
    return {
        script: (SCRIPT.format(what=what, unit=unit_of(area), steps="\n".join(lines)), 0o755),
        unit: (UNIT.format(what=what, script=script), 0o644),
        rule: (RULE.format(rows="".join(rows)), 0o644),
    }


def text_of(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write(path, text, mode):
    """Whole or not at all, and on the disk when this returns. A file that is there keeps its owner."""
    folder = Path(path).parent
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = folder / f".{Path(path).name}.pdctl"
    descriptor = os.open(str(partial), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    if Path(path).exists():
        status = Path(path).stat()
        os.chown(str(partial), status.st_uid, status.st_gid)
    partial.replace(path)


def enabled(module, area):
    code, printed, _said = module.run_command(["systemctl", "is-enabled", "--", unit_of(area)])
    return code == 0 and printed.strip() == "enabled"


def record(module, area, wanted):
    """Write what differs, and enable the unit. Problems, one for what did not hold."""
    for path, (text, mode) in wanted.items():
        if text_of(path) != text:
            write(path, text, mode)
            if module.selinux_enabled():
                module.set_default_selinux_context(path, False)
    module.run_command(["systemctl", "daemon-reload"])
    _code, _printed, said = module.run_command(["systemctl", "--quiet", "enable", "--", unit_of(area)])
    if module.get_bin_path("udevadm"):
        module.run_command(["udevadm", "control", "--reload"])
    if enabled(module, area):
        return []
    message = f"systemctl enable: {said.strip() or 'it is not enabled'}: nothing makes the settings again at boot"
    return [{"key": unit_of(area), "outcome": "refused", "message": message}]


def differing(module, area, wanted):
    """Paths whose text differs, and the unit where it is not enabled."""
    found = [path for path, (text, _mode) in wanted.items() if text_of(path) != text]
    return found + ([] if enabled(module, area) else [unit_of(area)])
