"""Kernel modules built for the guest: labdcb, ours; netdevsim and siw, which Debian leaves out of its kernel.

The last two are built only where the kernel's own source package is installed (`scripts/vm-packages soak`).
"""

import re
import shutil
from pathlib import Path

from tests.lab.commands import run

LABDCB = Path(__file__).parent / "labdcb"
FROM_KERNEL_SOURCE = {
    "netdevsim": ("drivers/net/netdevsim", "CONFIG_NETDEVSIM"),
    "siw": ("drivers/infiniband/sw/siw", "CONFIG_RDMA_SIW"),
}
_HEADERS = Path("/usr/src")
_DEADLINE_S = 300.0


def kernel_release() -> str:
    """The guest's kernel: that of the newest headers of this machine. Raises RuntimeError when there are none."""
    pattern = re.compile(r"linux-headers-(\d+\.\d+\.\d+-(\d+)-amd64)")
    found = [match for path in _HEADERS.glob("linux-headers-*") if (match := pattern.fullmatch(path.name))]
    if not found:
        raise RuntimeError("no kernel headers below /usr/src; run scripts/vm-packages")
    return max(found, key=lambda match: [int(part) for part in re.findall(r"\d+", match[1])])[1]


def inputs(release: str) -> list[Path]:
    """Everything that decides what `build` gives."""
    return [Path(__file__), *sorted(path for path in LABDCB.iterdir() if path.is_file()), *_source(release)]


def build(folder: Path, release: str) -> list[Path]:
    """The modules, compiled below `folder`, which is made."""
    shutil.copytree(LABDCB, folder / "labdcb")
    built = [_make(folder / "labdcb", release)]
    for archive in _source(release):
        prefix = archive.name.removesuffix(".tar.xz")
        wanted = [f"{prefix}/{path}/*" for path, _ in FROM_KERNEL_SOURCE.values()]
        run("tar", "-xJf", str(archive), "-C", str(folder), "--wildcards", *wanted, timeout_s=_DEADLINE_S)
        for path, option in FROM_KERNEL_SOURCE.values():
            built.append(_make(folder / prefix / path, release, f"{option}=m"))
    return built


def _source(release: str) -> list[Path]:
    version = ".".join(release.split(".")[:2])
    return [path for path in [_HEADERS / f"linux-source-{version}.tar.xz"] if path.is_file()]


def _make(folder: Path, release: str, *settings: str) -> Path:
    headers = _HEADERS / f"linux-headers-{release}"
    run("make", "-j2", "-C", str(headers), f"M={folder}", *settings, "modules", timeout_s=_DEADLINE_S)
    return next(folder.glob("*.ko"))
