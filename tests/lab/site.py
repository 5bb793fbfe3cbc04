"""The site of the lab: its policy, its inventories, and `pdctl provision` run on its controller."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.lab.nodes import Lab, Node

PDCTL = Path(sys.executable).with_name("pdctl")
RUN_DEADLINE_S = 300.0

# A network namespace shows these read-only, or not at all.
NOT_IN_A_NAMESPACE = (
    *("net.core.rmem_max", "net.core.wmem_max"),
    *(
        f"net.ipv4.neigh.default.{name}"
        for name in ("gc_thresh1", "gc_thresh2", "gc_thresh3", "base_reachable_time_ms")
    ),
)


def policy() -> dict[str, Any]:
    """Leaves alone what a namespace does not have, and asks for limits that root of this machine can give."""
    return {"sysctl": dict.fromkeys(NOT_IN_A_NAMESPACE), "limits": {"memlock": _memlock_kib(), "nofile": _nofile()}}


def _memlock_kib() -> int:
    _soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return 4096 if hard == resource.RLIM_INFINITY else hard // 1024 // 2


def _nofile() -> int:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard // 2


@dataclass(frozen=True)
class Ran:
    """One run of pdctl. document: what `-o json` printed, None when stdout is no JSON."""

    code: int
    stdout: str
    stderr: str
    document: Any

    def host(self, name: str) -> dict[str, Any]:
        (host,) = (host for host in self.document["hosts"] if host["name"] == name)
        return dict(host)


class Site:
    """A folder with inventories and a policy. `pools` maps a group to its nodes' names."""

    def __init__(self, lab: Lab, folder: Path, pools: Mapping[str, Sequence[str]]) -> None:
        self.lab = lab
        self.folder = folder
        self._pools = pools
        self.write_policy(policy())

    def write_policy(self, values: Mapping[str, Any]) -> None:
        (self.folder / "policy.yml").write_text(yaml.safe_dump(dict(values)), encoding="utf-8")

    def ini(self, extra: Mapping[str, str] | None = None, hosts: Mapping[str, str] | None = None) -> Path:
        """hosts: more lines, name -> variables. extra: more variables of a node."""
        lines = ["# 实验室：每个节点一行", *(f"{name} {variables}" for name, variables in (hosts or {}).items())]
        for pool, names in self._pools.items():
            lines.append(f"[{pool}]")
            for name in names:
                address = self.lab.nodes[name].address
                lines.append(f"{name} ansible_host={address} rack=甲三 {(extra or {}).get(name, '')}".rstrip())
        lines += ["[all:vars]", *(f"{key}={json.dumps(value)}" for key, value in self._connection().items())]
        path = self.folder / "hosts.ini"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def yaml(self) -> Path:
        children = {
            pool: {"hosts": {name: {"ansible_host": self.lab.nodes[name].address, "rack": "甲三"} for name in names}}
            for pool, names in self._pools.items()
        }
        document = {"all": {"vars": self._connection(), "children": children}}
        path = self.folder / "hosts.yml"
        path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        return path

    def provision(self, inventory: Path, *options: str, environment: Mapping[str, str] | None = None) -> Ran:
        return _ended(self.start(inventory, *options, environment=environment))

    def pdctl(self, *arguments: str) -> Ran:
        return _ended(self.lab.start(str(PDCTL), *arguments))

    def diagnose(self, inventory: Path, *options: str) -> Ran:
        """`pdctl doctor`, with the whole of its document."""
        return self.pdctl("doctor", str(inventory), "-o", "json", *options)

    def collect(self, inventory: Path, bundle: Path, *options: str) -> Ran:
        return _ended(self.lab.start(str(PDCTL), "collect", str(inventory), "--to", str(bundle), *options))

    def diagnose_kept(self, bundle: Path) -> Ran:
        """What `pdctl doctor` says of a bundle, without an inventory or a policy beside it."""
        return _ended(self.lab.start(str(PDCTL), "doctor", "--from", str(bundle), "-o", "json"))

    def doctor(self, inventory: Path, *options: str) -> dict[tuple[str, str, str], str]:
        """(check, node, object) -> status of everything that the doctor finds on the nodes."""
        ran = self.diagnose(inventory, *options)
        if ran.code not in (0, 1, 3):
            raise RuntimeError(f"pdctl doctor: exit {ran.code}\n{ran.stderr}")
        found: dict[tuple[str, str, str], str] = {}
        for finding in ran.document["findings"]:
            subject = finding["subject"]
            found[finding["check"], subject["node"], subject.get("object", "")] = finding["status"]
        return found

    def start(
        self, inventory: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return self.lab.start(str(PDCTL), "provision", str(inventory), *options, environment=environment)

    @property
    def runs(self) -> Path:
        """Where the controller keeps its records."""
        return self.lab.known_hosts.parent.parent / "state" / "pdctl" / "runs"

    def newest_run(self) -> str | None:
        names = sorted(path.name for path in self.runs.iterdir()) if self.runs.is_dir() else []
        return names[-1] if names else None

    def record(self, ran: Ran) -> Path:
        return Path(ran.document["run"]["folder"])

    def _connection(self) -> dict[str, str]:
        return {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.lab.key),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.lab.known_hosts}",
        }


def _ended(process: subprocess.Popen[str]) -> Ran:
    try:
        stdout, stderr = process.communicate(timeout=RUN_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    document = json.loads(stdout) if stdout.startswith("{") else None
    return Ran(process.returncode, stdout, stderr, document)


def differences(before: str, after: str) -> list[str]:
    """The lines that only one of two snapshots has."""
    old, new = set(before.splitlines()), set(after.splitlines())
    return sorted([f"- {line}" for line in old - new] + [f"+ {line}" for line in new - old])


# Outside of it: Ansible's temporary folder, and the lock that dnf takes on its database whatever it is asked.
_SNAPSHOT = r"""
roots='/etc /usr/local /usr/lib/locale /root'
look() { find $roots -xdev -not -path '/root/.ansible*' -not -path '/root/.rpmdb*' "$@" | sort; }
look -printf '%p %m %U %l\n'
look -type f -exec sha256sum {} +
for key in SYSCTLS; do printf '%s = %s\n' "$key" "$(cat "/proc/sys/$key" 2>&1)"; done
systemctl show --property DefaultLimitMEMLOCK,DefaultLimitNOFILE
"""


def snapshot(node: Node, keys: Iterable[str]) -> str:
    """Managed files with mode, owner and content, and live kernel parameters, as one text to compare."""
    paths = " ".join(key.replace(".", "/") for key in keys)
    return node.ssh(_SNAPSHOT.replace("SYSCTLS", paths))
