"""The root file system below every node, and layers over it with more packages: each made once, cached by its packages."""

import contextlib
import fcntl
import hashlib
import shutil
from collections.abc import Iterator, Sequence
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
# In a mount namespace of its own: what fails half-way leaves no mount behind. $1: the tree below, $2: a folder to build in.
_INSTALL = """
set -e
mount -t tmpfs -o size=1g layer "$2/root"
mkdir "$2/root/upper" "$2/root/work" "$2/root/all"
mount -t overlay -o "lowerdir=$1,upperdir=$2/root/upper,workdir=$2/root/work" layer "$2/root/all"
systemd-nspawn --quiet --pipe --register=no --keep-unit --directory "$2/root/all" --bind-ro "$2/packages:/mnt" \
    sh -c 'DEBIAN_FRONTEND=noninteractive dpkg --install /mnt/*.deb' </dev/null
cp -a "$2/root/upper" "$2/tree"
"""


def rootfs() -> Path:
    """The cached tree; makes it first (about a minute, 300 MB) when the list of packages is new."""
    suite = _os_release()["VERSION_CODENAME"]
    digest = hashlib.sha256("\n".join((suite, *_OPTIONS, *PACKAGES)).encode()).hexdigest()[:12]
    tree = user_cache_path("pdctl-lab") / f"{suite}-{digest}"
    if tree.is_dir():
        return tree
    with _locked(tree.parent):
        if not tree.is_dir():
            building = tree.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            packages = f"--include={','.join(PACKAGES)}"
            run("mmdebstrap", *_OPTIONS, packages, suite, str(building), str(_sources()), timeout_s=_DEADLINE_S)
            building.rename(tree)
    return tree


def layer(packages: Sequence[str]) -> Path:
    """The cached tree to put over `rootfs()`, with what these packages add; makes it first (some seconds) when it is new."""
    base = rootfs()
    digest = hashlib.sha256("\n".join((*packages, _INSTALL)).encode()).hexdigest()[:12]
    tree = base.with_name(f"{base.name}-with-{digest}")
    if tree.is_dir():
        return tree
    with _locked(tree.parent):
        if not tree.is_dir():
            building = tree.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            for name in ("packages/partial", "lists/partial", "root"):
                (building / name).mkdir(parents=True)
            _download(base, packages, building)
            run("unshare", "--mount", "sh", "-c", _INSTALL, "sh", str(base), str(building), timeout_s=_DEADLINE_S)
            (building / "tree").rename(tree)
            shutil.rmtree(building)
    return tree


def _download(base: Path, packages: Sequence[str], folder: Path) -> None:
    """These and what they need beyond what the base has, by this machine's apt: a node has no way to a mirror."""
    places = {
        "Dir::Etc::SourceList": _sources(),
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": base / "var/lib/dpkg/status",
        "Dir::Cache::archives": folder / "packages",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", "-y", *(word for key, value in places.items() for word in ("-o", f"{key}={value}"))]
    run(*apt, "update", timeout_s=_DEADLINE_S)
    run(*apt, "--no-install-recommends", "--download-only", "install", *packages, timeout_s=_DEADLINE_S)


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sources() -> Path:
    """This machine's own apt sources, so that a mirror or a proxy of the site is used for the nodes too."""
    identity = _os_release()["ID"]
    candidates = (Path(f"/etc/apt/sources.list.d/{identity}.sources"), Path("/etc/apt/sources.list"))
    return next(path for path in candidates if path.is_file() and path.stat().st_size > 0)


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines if "=" in line)}
