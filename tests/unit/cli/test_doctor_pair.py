"""`pdctl doctor --pair P D` looks at two nodes and no other, of an inventory or by their SSH destinations."""

import json
import re
import subprocess
import sys
from pathlib import Path

import paramiko
import pytest
from tests.unit.cli.ssh_server import serving
from typer.testing import CliRunner

from pdctl.app import app
from pdctl.errors import UsageError
from pdctl.pair_hosts import pair_hosts

PATIENCE_S = 200
HOSTS = """\
[prefill]
prefill-1 ansible_host=10.0.0.1
prefill-2 ansible_host=10.0.0.2 ansible_port=no
[decode]
decode-1 ansible_host=10.0.0.3
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.ini"
    path.write_text(HOSTS, encoding="utf-8")
    return path


def test_two_hosts_of_an_inventory_are_taken_in_the_order_given_and_no_other_s_fault_counts(hosts: Path) -> None:
    assert [host.name for host in pair_hosts(hosts, ("decode-1", "prefill-1"))] == ["decode-1", "prefill-1"]
    with pytest.raises(UsageError, match="`prefill-2` has no usable port"):
        pair_hosts(hosts, ("decode-1", "prefill-2"))


def test_an_unknown_host_is_answered_with_the_nearest(hosts: Path) -> None:
    with pytest.raises(UsageError, match="no host `decode-l`") as caught:
        pair_hosts(hosts, ("prefill-1", "decode-l"))
    assert caught.value.hint == "did you mean `decode-1`?"
    with pytest.raises(UsageError) as caught:
        pair_hosts(hosts, ("prefill-1", "zzz"))
    assert caught.value.hint and caught.value.hint.startswith("it has: `prefill-1`, `prefill-2`, `decode-1`;")


def test_without_an_inventory_they_are_ssh_destinations() -> None:
    first, second = pair_hosts(None, ("root@n1", "ssh://ops@[2001:db8::2]:2201"))
    assert (first.name, first.address, first.user, first.port) == ("n1", "n1", "root", 22)
    assert (second.name, second.address, second.user, second.port) == ("2001:db8::2:2201", "2001:db8::2", "ops", 2201)
    assert [host.address for host in pair_hosts(None, ("fe80::1", "10.0.0.2"))] == ["fe80::1", "10.0.0.2"]


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        (("n1", "n1"), "`--pair n1 n1` names one node twice"),
        (("n1", "root@n1"), "`--pair n1 root@n1` names one node twice"),
        (("n1", "n2:70000"), "`n2:70000` is no SSH destination"),
        (("n1", "$(reboot)"), "`$(reboot)` is no SSH destination"),
        (("-oProxyCommand=x", "n2"), "is no SSH destination"),
        (("n1", ""), "`` is no SSH destination"),
    ],
)
def test_what_are_not_two_nodes_is_a_clear_error(pair: tuple[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        pair_hosts(None, pair)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--from x.txt", "looks at two live nodes"),
        ("--diff a b", "looks at two live nodes"),
        ("-i x.ini --limit n1", "looks at two live nodes"),
        ("--fix", "needs the INVENTORY that names both"),
    ],
)
def test_what_does_not_go_with_a_pair_is_refused(line: str, says: str) -> None:
    assert says in str(CliRunner().invoke(app, ["doctor", "--pair", "n1", "n2", *line.split()]).exception)


def test_two_live_nodes_are_judged_each_and_together(tmp_path: Path) -> None:
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "id"))
    with serving("ops", key, deadline_s=PATIENCE_S) as one, serving("ops", key, deadline_s=PATIENCE_S) as two:
        ports = {"p": one.port, "d": two.port, "other": 1}
        known = [f"[127.0.0.1]:{end.port} {end.host_key.get_name()} {end.host_key.get_base64()}" for end in (one, two)]
        (tmp_path / "known_hosts").write_text("\n".join(known) + "\n", encoding="ascii")
        nodes = {name: {"ansible_host": "127.0.0.1", "ansible_port": port} for name, port in ports.items()}
        reach = {
            "ansible_user": "ops",
            "ansible_ssh_private_key_file": str(tmp_path / "id"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={tmp_path / 'known_hosts'}",
        }
        inventory = tmp_path / "site.yml"
        inventory.write_text(json.dumps({"all": {"hosts": nodes, "vars": reach}}), encoding="utf-8")
        argv = ["doctor", "--pair", "p", "d", "-i", str(inventory), "--interval", "0", "--connect-timeout", "60"]
        ran = subprocess.run(
            [sys.executable, "-m", "pdctl", *argv, "-o", "json"],
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
    document = json.loads(ran.stdout)
    assert document["incomplete"] == [], ran.stderr
    subjects = [finding["subject"] for finding in document["findings"]]
    assert {subject["node"] for subject in subjects} == {"p", "d"}
    assert any({subject["node"], subject.get("peer")} == {"p", "d"} for subject in subjects)
