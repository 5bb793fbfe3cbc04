"""The root file system below every node: made once by mmdebstrap, cached by the list of its packages."""

import fcntl
import hashlib
import shutil
from pathlib import Path

from platformdirs import user_cache_path
from tests.lab.commands import run

PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "libpam-systemd", "udev", "kmod", "procps", "locales", "sudo"),
    *("iproute2", "iputils-ping", "ethtool", "pciutils", "openssh-server", "python3", "python3-apt"),
    # Debian has it too: what safe_yum wraps can run here.
    "dnf",
    # Make the repository that it installs from.
    *("rpm", "createrepo-c"),
    # What the policy asks of an RDMA node: the lab has no route to a mirror.
    *("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "perftest"),
)
_OPTIONS = (
    "--variant=minbase",
    "--aptopt=Acquire::Languages none",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
)
_DEADLINE_S = 900.0


def rootfs() -> Path:
    """The cached tree; makes it first (about a minute, 300 MB) when the list of packages is new."""
    suite = _os_release()["VERSION_CODENAME"]
    digest = hashlib.sha256("\n".join((suite, *_OPTIONS, *PACKAGES)).encode()).hexdigest()[:12]
    cache = user_cache_path("pdctl-lab")
    tree = cache / f"{suite}-{digest}"
    if tree.is_dir():
        return tree
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.is_dir():
            building = tree.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            packages = f"--include={','.join(PACKAGES)}"
            run("mmdebstrap", *_OPTIONS, packages, suite, str(building), str(_sources()), timeout_s=_DEADLINE_S)
            building.rename(tree)
    return tree


def _sources() -> Path:
    """This machine's own apt sources, so that a mirror or a proxy of the site is used for the nodes too."""
    identity = _os_release()["ID"]
    candidates = (Path(f"/etc/apt/sources.list.d/{identity}.sources"), Path("/etc/apt/sources.list"))
    return next(path for path in candidates if path.is_file() and path.stat().st_size > 0)


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines if "=" in line)}
