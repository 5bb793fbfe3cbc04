"""Ways to break a node that is converged, each with what it breaks and the finding that has to name it.

What a container lacks (its own kernel, module options, RDMA devices and their MTU, a clock) is in vm/faults.py.
"""

from pathlib import Path

from tests.lab.cure import Fault, shown_by
from tests.lab.nodes import Node

ENGINE = "pdctl-prefill.service"
_UNIT = f"/etc/systemd/system/{ENGINE}"
_REPOSITORY = "/etc/yum.repos.d/site.repo"
_RDMA_UNITS = ("rdma-hw.target", "rdma-load-modules@rdma.service", "rdma-load-modules@infiniband.service")
# rdma-core as this node has it becomes a package again: the lab has no route to a mirror.
_LOCAL_PACKAGE = r"""
set -e
rm -rf /srv/packages && mkdir -p /srv/packages/tree/DEBIAN
dpkg -L rdma-core | while read -r path; do
    [ ! -f "$path" ] || { mkdir -p "/srv/packages/tree${path%/*}" && cp -a "$path" "/srv/packages/tree$path"; }
done
cd /srv/packages
dpkg-query --status rdma-core | sed '/^Status:/d; /^Conffiles:/,/^[^ ]/{/^Conffiles:/d; /^ /d}' >tree/DEBIAN/control
for script in preinst postinst prerm postrm; do
    [ ! -e /var/lib/dpkg/info/rdma-core.$script ] || cp -a /var/lib/dpkg/info/rdma-core.$script tree/DEBIAN/$script
done
dpkg-deb --build --root-owner-group -Znone tree rdma-core.deb >/dev/null
{ cat tree/DEBIAN/control
  echo Filename: ./rdma-core.deb
  echo Size: $(stat -c %s rdma-core.deb)
  echo SHA256: $(sha256sum rdma-core.deb | cut -d' ' -f1)
} >Packages
rm -rf tree /etc/apt/sources.list.d/* && : >/etc/apt/sources.list
echo 'deb [trusted=yes] file:/srv/packages ./' >/etc/apt/sources.list.d/site.list
apt-get update -q
"""


def an_engine(root: Path) -> None:
    """A unit named like an engine's. It runs no model: what is looked at here is what systemd says of it."""
    (root / _UNIT.lstrip("/")).write_text("[Service]\nExecStart=/bin/sleep infinity\n", encoding="utf-8")


def start_engine(node: Node) -> None:
    node.ssh(f"systemctl daemon-reload && systemctl restart {ENGINE}")


def _locale_that_is_not_installed(node: Node) -> None:
    node.ssh("echo LANG=xx_YY.UTF-8 >/etc/default/locale")


def _limits_of_services_lost(node: Node) -> None:
    node.ssh("rm /etc/systemd/system.conf.d/90-pdctl.conf && systemctl daemon-reexec")


def _limits_of_logins_lost(node: Node) -> None:
    node.ssh("rm /etc/security/limits.d/90-pdctl.conf")


def _no_break_space(node: Node) -> None:
    text = r"[site]\nname=site\nbaseurl=https://192.0.2.1/el9\302\240x86_64\nenabled=0\n"
    node.ssh(f"mkdir -p /etc/yum.repos.d && printf '{text}' >{_REPOSITORY}")


def _rdma_core_removed(node: Node) -> None:
    node.ssh(f"({_LOCAL_PACKAGE}) && dpkg --remove --force-depends rdma-core", timeout_s=120)


def _target_masked(node: Node) -> None:
    node.ssh("systemctl mask rdma-hw.target")


def _unit_file_edited(node: Node) -> None:
    node.ssh(f"echo 'Environment=SEEN=new' >>{_UNIT}")


def _unit_raised_without_restart(node: Node) -> None:
    node.ssh(
        f"mkdir -p /run/systemd/system/{ENGINE}.d && cd /run/systemd/system/{ENGINE}.d && "
        "printf '[Service]\\nLimitNOFILE=900\\n' >limits.conf && systemctl daemon-reload && "
        f"systemctl restart {ENGINE} && rm limits.conf && systemctl daemon-reload"
    )


FAULTS = (
    Fault[Node](
        "locale-not-installed",
        "yum, Python programs and Ansible modules stop at the first byte outside ASCII",
        "locale.utf8",
        "node's locale",
        _locale_that_is_not_installed,
        shown_by('. /etc/default/locale && [ "$(LC_ALL=$LANG locale charmap 2>/dev/null)" != UTF-8 ]'),
    ),
    Fault[Node](
        "limits-of-services",
        "engines run out of descriptors under load",
        "limits.nofile",
        "nofile of systemd services",
        _limits_of_services_lost,
        shown_by("[ $(systemctl show -p DefaultLimitNOFILESoft --value) = 1024 ]"),
    ),
    Fault[Node](
        "limits-of-logins",
        "what is started by hand runs out of descriptors under load",
        "limits.nofile",
        "nofile of this session",
        _limits_of_logins_lost,
        shown_by("[ $(ulimit -Sn) = 1024 ]"),
    ),
    Fault[Node](
        "non-ascii-repository",
        "yum on Python 2 stops with UnicodeDecodeError",
        "yum.repo-bytes",
        f"{_REPOSITORY}:3:30",
        _no_break_space,
        shown_by(f"LC_ALL=C grep -q '[^ -~]' {_REPOSITORY}"),
    ),
    Fault[Node](
        "missing-unit",
        "nothing loads the RDMA stack when a card appears",
        "service.rdma",
        _RDMA_UNITS[0],
        _rdma_core_removed,
        shown_by("[ ! -e /usr/lib/systemd/system/rdma-hw.target ]"),
        also=frozenset(("service.rdma", unit) for unit in _RDMA_UNITS[1:]),
    ),
    Fault[Node](
        "masked-unit",
        "nothing loads the RDMA stack when a card appears",
        "service.rdma",
        _RDMA_UNITS[0],
        _target_masked,
        shown_by("[ $(systemctl is-enabled rdma-hw.target) = masked ]"),
    ),
    Fault[Node](
        "unit-file-changed",
        "the engine runs by a file that is no longer there to be read",
        "service.engine",
        ENGINE,
        _unit_file_edited,
        shown_by(f"[ $(systemctl show -p NeedDaemonReload --value {ENGINE}) = yes ]"),
    ),
    Fault[Node](
        "limits-older-than-unit",
        "the engine runs out of descriptors, and its unit says that it may not",
        "service.engine",
        ENGINE,
        _unit_raised_without_restart,
        shown_by(f"grep -q 'open files  *900 ' /proc/$(systemctl show -p MainPID --value {ENGINE})/limits"),
    ),
)

# One of each kind: what a test run beside others has time for.
CHOSEN = ("locale-not-installed", "limits-of-services", "non-ascii-repository", "missing-unit", "unit-file-changed")
# The remedies of the others are commands only.
CURED_BY_ROLE = ("locale-not-installed", "limits-of-services", "limits-of-logins", "missing-unit")
