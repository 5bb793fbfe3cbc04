"""What provision reaches, the doctor reaches: a node behind a jump host, as a user whose sudo wants a password from a vault."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.lab.commands import run
from tests.lab.logins import PASSWORD, login_that_is_not_root
from tests.lab.nodes import Lab
from tests.lab.site import PDCTL, RUN_DEADLINE_S, policy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

INNER, PORT = "10.88.0.2", 2222


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


@dataclass
class Hidden:
    """A site whose one node has no way from the controller but through the jump host."""

    lab: Lab
    folder: Path
    exposed: set[str] = field(default_factory=set)

    def inventory(self, name: str, arguments: str) -> Path:
        """Two folders deep, so that the vault is a group variable and its use is a template."""
        folder = self.folder / name
        (folder / "group_vars").mkdir(parents=True)
        (folder / "policy.yml").write_text(yaml.safe_dump(policy()), encoding="utf-8")
        variables = {
            "ansible_user": "ops",
            "ansible_port": PORT,
            "ansible_ssh_private_key_file": str(self.folder / "inner"),
            "ansible_become": True,
            "ansible_become_password": "{{ site_sudo }}",
            "jump": "bastion",
            "ansible_ssh_common_args": arguments,
        }
        vault = self._vault("encrypt_string", "--name", "site_sudo", PASSWORD)
        text = yaml.safe_dump(variables) + vault
        (folder / "group_vars/all.yml").write_text(text, encoding="utf-8")
        (folder / "hosts.ini").write_text(f"[prefill]\ninner ansible_host={INNER}\n", encoding="utf-8")
        return folder / "hosts.ini"

    def pdctl(self, *arguments: str, vault: bool = True) -> Ran:
        given = {"ANSIBLE_VAULT_PASSWORD_FILE": str(self.folder / "vault-password")} if vault else {}
        process = self.lab.start(str(PDCTL), *arguments, environment=given)
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,))
        watch.start()
        try:
            stdout, stderr = process.communicate(timeout=RUN_DEADLINE_S)
        finally:
            process.kill()
            over.set()
            watch.join()
        return Ran(process.returncode, stdout, stderr)

    def _watch(self, over: threading.Event) -> None:
        """Arguments and environments of every process of machine and nodes that show the password."""
        while not over.wait(0.05):
            for path in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
                with contextlib.suppress(OSError):
                    if PASSWORD.encode() in path.read_bytes():
                        self.exposed.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))

    def _vault(self, *arguments: str) -> str:
        password = ("--vault-password-file", str(self.folder / "vault-password"))
        command = (sys.executable, "-m", "ansible", "vault", arguments[0], *password, *arguments[1:])
        return self.lab.run(*command, environment={"LC_ALL": "C.UTF-8"})


@pytest.fixture(scope="module")
def hidden(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hidden]:
    folder = tmp_path_factory.mktemp("site")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "inner"))
    (folder / "vault-password").write_text("of the vault\n", encoding="utf-8")

    def inner(root: Path) -> None:
        login_that_is_not_root(root, "ops", folder / "inner")
        _sshd(root, f"Port 22\nPort {PORT}\n")

    def outer(root: Path) -> None:
        login_that_is_not_root(root, "hop")
        _sshd(root)

    (jump,) = lab.up(["jump"], outer)
    (node,) = lab.up(["inner"], inner)
    run("ip", "-n", jump.namespace, "addr", "add", "10.88.0.1/24", "dev", "eth0")
    run("ip", "-n", node.namespace, "addr", "add", f"{INNER}/24", "dev", "eth0")
    run("ip", "-n", node.namespace, "addr", "del", f"{node.address}/16", "dev", "eth0")
    key = next(line for line in lab.known_hosts.read_text(encoding="utf-8").splitlines() if node.address in line)
    known = folder / "known_hosts"
    known.write_text(
        f"[{INNER}]:{PORT} {key.split(maxsplit=1)[1]}\n" + lab.known_hosts.read_text(encoding="utf-8"), encoding="utf-8"
    )
    (folder / "ssh.cfg").write_text(
        f"Host bastion\n  HostName {jump.address}\n  User hop\n  IdentityFile {lab.key}\n"
        f"Host *\n  UserKnownHostsFile {known}\n",
        encoding="utf-8",
    )
    yield Hidden(lab, folder)


def _sshd(root: Path, text: str = "") -> None:
    # With PAM a login waits for logind, which may still be stopping the user's manager of the session before.
    (root / "etc/ssh/sshd_config.d/lab.conf").write_text(f"UsePAM no\n{text}", encoding="utf-8")


@pytest.fixture(scope="module")
def by_jump(hidden: Hidden) -> Path:
    return hidden.inventory("by-jump", f"-F {hidden.folder}/ssh.cfg -J {{{{ jump }}}}")


def test_no_way_leads_past_the_jump_host(hidden: Hidden) -> None:
    with pytest.raises(RuntimeError):
        hidden.lab.run("ping", "-c", "1", "-W", "1", INNER)


def test_provision_doctor_and_collect_reach_it_and_become_root_and_the_password_shows_nowhere(
    hidden: Hidden, by_jump: Path
) -> None:
    provisioned = hidden.pdctl("provision", str(by_jump), "--tags", "locale", "-o", "json")
    assert provisioned.code == 0, provisioned.stderr
    assert [host["status"] for host in provisioned.document["hosts"]] == ["changed"]

    again = hidden.pdctl("provision", str(by_jump), "--tags", "locale", "--drift", "-o", "json")
    assert again.code == 0, again.stderr
    assert [host["settled"] for host in again.document["hosts"]] == [True]

    looked = hidden.pdctl("doctor", str(by_jump), "--interval", "0", "--connect-timeout", "60", "-o", "json")
    assert looked.document["incomplete"] == [], looked.stderr
    locale = [f["status"] for f in looked.document["findings"] if f["check"] == "PD-LOCALE-001"]
    assert locale == ["pass"]

    command = f"ssh -F {hidden.folder}/ssh.cfg -W %h:%p bastion"
    other = hidden.inventory("by-command", f"-F {hidden.folder}/ssh.cfg -o ProxyCommand='{command}'")
    bundle = hidden.folder / "kept.tar"
    kept = hidden.pdctl("collect", str(other), "--to", str(bundle), "--interval", "0", "--connect-timeout", "60")
    assert kept.code == 0, kept.stderr
    text = bundle.read_text(encoding="utf-8", errors="replace")
    assert "privilege password" in text
    assert "needs root" not in text
    assert "ssh ops@10.88.0.2 port 2222" in text

    assert hidden.exposed == set()
    printed = "".join(ran.stdout + ran.stderr for ran in (provisioned, again, looked, kept))
    assert PASSWORD not in printed
    left = [*hidden.folder.rglob("*"), *hidden.lab.known_hosts.parents[1].rglob("*")]
    nodes = [path for name in ("jump", "inner") for path in (hidden.lab.folder / name / "upper").rglob("*")]
    holding = [str(path) for path in (*left, *nodes) if _holds(path)]
    assert holding == []


def _holds(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and PASSWORD.encode() in path.read_bytes()


def test_without_the_vaults_password_nothing_is_connected_to_and_the_variable_is_named(
    hidden: Hidden, by_jump: Path
) -> None:
    ran = hidden.pdctl("doctor", str(by_jump), "--interval", "0", vault=False)
    assert ran.code == 2
    assert "ansible_become_password" in ran.stderr and "vault" in ran.stderr
