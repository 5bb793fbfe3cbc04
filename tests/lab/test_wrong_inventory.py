"""Nodes that are wrong in every way, in one inventory: each gets one clear message, and none is touched."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.commands import run
from tests.lab.nodes import Lab, Node
from tests.lab.site import Ran, Site, differences

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GHOST = "10.77.9.9"
ALIAS = "10.77.1.200"
OPS = "ansible_user=ops ansible_become=true"

# What `inventory validate --live` and a run say of each host.
SAID = {
    "good": "",
    "another": "`gpu_kind` is declared `h100` by host another, and the node has `a100-sxm-40`",
    "oldpython": "Python 3.6 (python3) is below 3.8, the oldest that Ansible supports on a node",
    "nopython": "no Python works on this node: python3: python3: not found",
    "alpine": "Alpine Linux v3.20 is of none of the families that the roles know",
    "readonly": "/etc is mounted read-only",
    "fulldisk": "/tmp has 0 MiB free",
    "inodes": "/tmp has 0 inodes free",
    "nosudo": "sudo is not installed on this node",
    "sudoer": "sudo asks the login `ops` for a password: give it with -K",
    "nologin": "its login shell runs no commands; it printed: This account is currently not available.",
    "twin": "the same machine as `alias`",
    "alias": "the same machine as `twin`",
    "renewed": "its host key is not the known one, so that it was not connected to",
    "unknown": "its host key is not known here",
    "stranger": "the node takes none of the keys, nor a password",
    "refused": "nothing listens on its SSH port",
    "ghost": "no answer from its address",
    "nameless": "its name does not resolve here",
}
NOT_REACHED = {"renewed", "unknown", "stranger", "refused", "ghost", "nameless"}


def _python(root: Path, script: str) -> None:
    _no_python(root)
    (root / "usr/bin/python3").write_text(script, encoding="utf-8")
    (root / "usr/bin/python3").chmod(0o755)


def _old_python(root: Path) -> None:
    _python(root, "#!/bin/sh\necho 3.6\n")


def _no_python(root: Path) -> None:
    for path in (root / "usr/bin").glob("python3*"):
        path.unlink()


def _alpine(root: Path) -> None:
    (root / "etc/os-release").unlink()
    (root / "etc/os-release").write_text('ID=alpine\nPRETTY_NAME="Alpine Linux v3.20"\n', encoding="utf-8")


def _another_gpu(root: Path) -> None:
    tool = root / "usr/local/bin/nvidia-smi"
    tool.write_text(
        '#!/bin/sh\ncase "$*" in *name*) echo index, uuid, name; echo 0, GPU-0, NVIDIA A100-SXM4-40GB;; esac\n',
        encoding="utf-8",
    )
    tool.chmod(0o755)


def _ops(root: Path, shell: str = "/bin/sh") -> None:
    """A login that is not root, has no password and is allowed everything with one."""
    with (root / "etc/passwd").open("a", encoding="utf-8") as stream:
        stream.write(f"ops:x:1500:1500::/home/ops:{shell}\n")
    with (root / "etc/shadow").open("a", encoding="utf-8") as stream:
        stream.write("ops:*:20000:0:99999:7:::\n")
    keys = root / "home/ops/.ssh/authorized_keys"
    keys.parent.mkdir(parents=True)
    keys.write_text((root / "root/.ssh/authorized_keys").read_text(encoding="utf-8"), encoding="utf-8")
    for path in (root / "home/ops", keys.parent, keys):
        path.chmod(0o700)
        run("chown", "1500:1500", str(path))
    (root / "etc/sudoers.d/ops").write_text("ops ALL=(ALL) ALL\n", encoding="utf-8")
    (root / "etc/sudoers.d/ops").chmod(0o440)


def _no_sudo(root: Path) -> None:
    _ops(root)
    (root / "usr/bin/sudo").unlink()


def _no_login(root: Path) -> None:
    _ops(root, "/usr/sbin/nologin")


@dataclass(frozen=True)
class Story:
    site: Site
    inventory: Path
    before: Mapping[str, str]
    live: Ran
    ran: Ran
    after: Mapping[str, str]


# Boot has ended first, since it writes as well; logins leave no trace outside of /var. Of rpm's database see site.py.
_LOOK = r"""
systemctl is-system-running --wait >/dev/null
places='/etc /usr/local /root/* /root/.[!.]* /home /srv /opt /var/lib/pdctl'
find $places -xdev -not -path '/root/.rpmdb*' -printf '%p %m %U %s %T@ %l\n' 2>&1 | sort
"""


def _look(lab: Lab) -> Mapping[str, str]:
    """Of each node every file that a role, a package or Ansible itself could have written."""
    return {name: node.ssh(_LOOK, timeout_s=120) for name, node in lab.nodes.items()}


def _other_key(lab: Lab, node: Node) -> str:
    """The known_hosts in which the node once had another key."""
    key = lab.folder / "former"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    former = " ".join(key.with_suffix(".pub").read_text(encoding="utf-8").split()[:2])
    lines = lab.known_hosts.read_text(encoding="utf-8").splitlines()
    return "".join(
        f"{node.address} {former}\n" if line.startswith(f"{node.address} ") else f"{line}\n" for line in lines
    )


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    lab.up(["good", "readonly", "fulldisk", "inodes", "twin", "renewed", "unknown", "stranger"])
    for name, prepare in {
        "oldpython": _old_python, "nopython": _no_python, "alpine": _alpine,
        "another": _another_gpu, "nosudo": _no_sudo, "sudoer": _ops, "nologin": _no_login,
    }.items():  # fmt: skip
        lab.up([name], prepare)
    nodes = lab.nodes
    nodes["readonly"].ssh("mount --bind /etc /etc; mount -o remount,bind,ro /etc")
    nodes["fulldisk"].ssh("mount -t tmpfs -o size=64k tmpfs /tmp; head -c 1M /dev/zero >/tmp/full 2>/dev/null || true")
    nodes["inodes"].ssh("mount -t tmpfs -o size=128m,nr_inodes=2 tmpfs /tmp; touch /tmp/last")
    run("ip", "-n", nodes["twin"].namespace, "addr", "add", f"{ALIAS}/16", "dev", "eth0")
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": list(nodes), "decode": []})
    before = _look(lab)

    known = lab.known_hosts.read_text(encoding="utf-8")
    twin = next(line for line in known.splitlines() if line.startswith(f"{nodes['twin'].address} "))
    lines = [
        line for line in _other_key(lab, nodes["renewed"]).splitlines() if nodes["unknown"].address != line.split()[0]
    ]
    lab.known_hosts.write_text(
        "\n".join([*lines, twin.replace(nodes["twin"].address, ALIAS, 1)]) + "\n", encoding="utf-8"
    )
    hosts = {
        "ghost": f"ansible_host={GHOST}",
        "alias": f"ansible_host={ALIAS}",
        "nameless": "ansible_host=nowhere.invalid",
        "refused": f"ansible_host={nodes['good'].address} ansible_port=2222",
    }
    kinds = {"good": "gpu_kind=h100 simulated=true", "another": "gpu_kind=h100"}
    inventory = site.ini(
        {**kinds, "nosudo": OPS, "sudoer": OPS, "nologin": OPS, "stranger": "ansible_user=nobody-here"}, hosts
    )
    try:
        live = site.pdctl("inventory", "validate", str(inventory), "--live", "--timeout", "4", "-o", "json")
        ran = site.provision(inventory, "--limit", "all,!good,!another", "--timeout", "4", "-o", "json")
    finally:
        lab.known_hosts.write_text(known, encoding="utf-8")
    return Story(site, inventory, before, live, ran, _look(lab))


def test_every_host_gets_its_one_line(story: Story) -> None:
    said = {node["name"]: node["why"] or "" for node in story.live.document["nodes"]}
    assert set(said) == set(SAID)
    wrong = {name: why for name, why in said.items() if not (why.startswith(SAID[name]) if SAID[name] else why == "")}
    assert wrong == {}
    assert [name for name, why in said.items() if "\n" in why] == []


def test_a_node_that_answers_is_told_from_one_that_does_not(story: Story) -> None:
    reached = {node["name"]: node["reached"] for node in story.live.document["nodes"]}
    assert {name for name, there in reached.items() if not there} == NOT_REACHED
    assert story.live.code == 3


def test_a_run_says_the_same_and_changes_nothing(story: Story) -> None:
    for host in story.ran.document["hosts"]:
        why = host["unreachable"] or host["failure"]["message"]
        assert why.startswith(SAID[host["name"]]), host["name"]
        assert host["status"] == ("unreachable" if host["name"] in NOT_REACHED else "unfit")
        assert (host["changes"], host["problems"]) == ([], [])
    assert story.ran.code == 3


def test_no_node_was_touched(story: Story) -> None:
    touched = {name: differences(was, story.after[name]) for name, was in story.before.items()}
    assert {name: lines for name, lines in touched.items() if lines} == {}


def test_a_look_leaves_no_record(story: Story) -> None:
    runs = story.site.pdctl("runs", "list", "-o", "json").document["runs"]
    assert [run["command"] for run in runs] == ["provision"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-e", "ansible_become_password=wrong"), "sudo does not take the password of the login `ops`"),
        (("-e", "ansible_become=false"), "the login `ops` is not root: use --become"),
    ],
)
def test_a_password_that_sudo_refuses_and_a_login_without_sudo_are_told_apart(
    story: Story, options: tuple[str, ...], said: str
) -> None:
    ran = story.site.pdctl(
        "inventory", "validate", str(story.inventory), "--live", "--limit", "sudoer", "-o", "json", *options
    )
    (node,) = ran.document["nodes"]
    assert (ran.code, node["why"][: len(said)]) == (1, said)
