"""Whether this machine can run virtual machines of the lab at all."""

import os
import platform
import shutil
import sys
from pathlib import Path

TOOLS = ["mmdebstrap", "systemd-nspawn", "ip", "ssh", "qemu-system-x86_64", "qemu-img", "mkfs.ext4", "make", "gcc"]


def reason_to_skip() -> str | None:
    """None when all is there; the reason otherwise, as a person would act on it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"virtual machines of the lab need Linux on x86_64, this is {sys.platform} on {platform.machine()}"
    if os.geteuid() != 0:
        return "virtual machines of the lab need root, for network namespaces"
    if not Path("/dev/net/tun").exists():
        return "virtual machines of the lab need /dev/net/tun"
    if "ID=debian" not in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        return "the image of the lab's virtual machines is made from this machine's Debian packages; this is not Debian"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"missing {', '.join(missing)}; run scripts/vm-packages"
    if not any(Path("/usr/src").glob("linux-headers-*-amd64")):
        return "missing kernel headers; run scripts/vm-packages"
    return None
