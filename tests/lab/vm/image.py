"""The disk below every virtual machine: the nodes' root file system, a Debian kernel, and our own kernel modules.

Built once into the user's cache, under a name made of everything that goes into it. A lab that uses an image holds a shared
lock on it; building a new one removes the images that nobody holds.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path
from tests.lab.commands import run
from tests.lab.rootfs import rootfs
from tests.lab.vm import modules

HERE = Path(__file__).parent
CACHE = user_cache_path("pdctl-lab")
PACKAGES = ["initramfs-tools", "zstd", "grub-pc-bin", "mstflint", "rdmacm-utils", "python3-pyverbs", "sudo", "chrony"]
_BUILD_DEADLINE_S = 1200.0
_DISK_SIZE = "4G"


@dataclass(frozen=True)
class Image:
    """`kernel` is GRUB, which boots what the disk holds; `linux` is the guest's kernel itself."""

    folder: Path
    release: str

    @property
    def disk(self) -> Path:
        return self.folder / "disk.img"

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel.img"

    @property
    def linux(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def key(self) -> Path:
        """The private key that root of every machine accepts."""
        return self.folder / "key"

    @property
    def host_key(self) -> str:
        """Type and key, as known_hosts has them."""
        return " ".join((self.folder / "host-key.pub").read_text(encoding="utf-8").split()[:2])

    @contextmanager
    def held(self) -> Iterator[None]:
        """No one removes the image meanwhile."""
        with (self.folder / "lease").open("w", encoding="utf-8") as lease:
            fcntl.flock(lease, fcntl.LOCK_SH)
            yield


def image() -> Image:
    """The cached image; builds it first (half a minute beyond the nodes' root file system, 1 GB) when an input is new.

    Raises:
        RuntimeError: no kernel headers, or a step failed; with what it printed.
    """
    base, release = rootfs(), modules.kernel_release()
    built = Image(CACHE / f"vm-{_digest(base, release)}", release)
    if built.folder.is_dir():
        return built
    with (CACHE / "vm-lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.folder.is_dir():
            _remove_unused()
            building = built.folder.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir(mode=0o700)
            _build(building, base, release)
            building.rename(built.folder)
    return built


def _digest(base: Path, release: str) -> str:
    """Of the root file system, the packages, the files of this folder that the build reads, and the kernel sources."""
    state = hashlib.sha256("\n".join((base.name, release, _DISK_SIZE, *PACKAGES)).encode())
    inputs = [Path(__file__), HERE / "build-guest", *_files(HERE / "guest"), *modules.inputs(release)]
    for path in inputs:
        state.update(f"{path.name} {path.stat().st_mode & 0o111}\n".encode())
        # The kernel's source archive is known by its package's version, which its size follows.
        state.update(path.read_bytes() if path.stat().st_size < 1 << 20 else str(path.stat().st_size).encode())
    return state.hexdigest()[:12]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _build(folder: Path, base: Path, release: str) -> None:
    tree = folder / "tree"
    run("cp", "-a", "--reflink=auto", str(base), str(tree), timeout_s=_BUILD_DEADLINE_S)
    shutil.copytree(HERE / "guest", tree, dirs_exist_ok=True)
    extra = tree / "usr/lib/modules" / release / "extra"
    extra.mkdir(parents=True)
    for module in modules.build(folder / "modules", release):
        shutil.copy(module, extra)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    (tree / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(folder / "key.pub", tree / "root/.ssh/authorized_keys")
    # The kernel's own installation then indexes the modules above and makes the initramfs.
    run(
        *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe", "--resolv-conf=copy-host"),
        *(f"--bind-ro={HERE / 'build-guest'}:/run/build-guest", "--directory", str(tree)),
        *("/run/build-guest", f"linux-image-{release}", *PACKAGES),
        timeout_s=_BUILD_DEADLINE_S,
    )
    shutil.copy(tree / "boot/grub/kernel.img", folder / "kernel.img")
    shutil.copy(tree / f"boot/vmlinuz-{release}", folder / "vmlinuz")
    shutil.copy(tree / "etc/ssh/ssh_host_ed25519_key.pub", folder / "host-key.pub")
    disk = str(folder / "disk.img")
    run("truncate", "--size", _DISK_SIZE, disk)
    run(
        "mkfs.ext4",
        "-q",
        "-E",
        "lazy_itable_init=1,lazy_journal_init=1",
        "-d",
        str(tree),
        disk,
        timeout_s=_BUILD_DEADLINE_S,
    )
    shutil.rmtree(tree)
    shutil.rmtree(folder / "modules")


def _remove_unused() -> None:
    for folder in CACHE.glob("vm-*/"):
        lease = folder / "lease"
        with lease.open("w", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder, ignore_errors=True)
