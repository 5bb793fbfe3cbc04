"""Whether KVM of this machine can boot the guest's kernel; emulation otherwise.

That /dev/kvm is there proves nothing: some nested or para-virtualised KVMs accept a machine and then interpret it
instruction by instruction. So the guest's own kernel is started and must greet within seconds.
"""

import os
import subprocess
from pathlib import Path

_PROBE_S = 10.0
QEMU = "qemu-system-x86_64"
KVM = ("-accel", "kvm", "-cpu", "host")
# qemu64 boots a quarter faster than `max`; thread=multi gives every virtual processor its own thread.
EMULATION = ("-accel", "tcg,thread=multi,tb-size=512", "-cpu", "qemu64")


def accelerator(linux: Path) -> tuple[str, ...]:
    """QEMU's arguments for accelerator and processor."""
    return KVM if os.access("/dev/kvm", os.R_OK | os.W_OK) and _greets(linux) else EMULATION


def _greets(linux: Path) -> bool:
    command = (
        *(QEMU, "-nodefaults", *KVM, "-m", "256", "-display", "none", "-serial", "stdio", "-no-reboot"),
        *("-kernel", str(linux), "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"),
    )
    # It has no disk: on a real KVM it greets, panics and ends within a second or two.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        output, _ = process.communicate(timeout=_PROBE_S)
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.kill()
        process.wait()
    return b"Linux version" in output
