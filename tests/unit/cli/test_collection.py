"""Collecting from nodes: each is looked at as a whole, or named once with the reason and what to do."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import paramiko
import pytest
from tests.unit.cli.ssh_server import Server, serving

PATIENCE_S = 200
# Long enough for a key exchange on a machine that does much else.
CONNECT_S = 15
BAD = ("n-down", "n-hangs", "n-other-key", "n-no-tools")


@pytest.fixture(scope="module")
def key() -> paramiko.ECDSAKey:
    return paramiko.ECDSAKey.generate()


@pytest.fixture(scope="module")
def server(key: paramiko.ECDSAKey) -> Iterator[Server]:
    with serving("operator", key, deadline_s=PATIENCE_S) as server:
        yield server


@pytest.fixture(scope="module")
def looked(
    server: Server, key: paramiko.ECDSAKey, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, subprocess.CompletedProcess[str]]]:
    """The doctor over one good node and four bad ones, as table and as JSON."""
    folder = tmp_path_factory.mktemp("site")
    key.write_private_key_file(str(folder / "id"))
    with (
        serving("operator", paramiko.ECDSAKey.generate()) as other,
        serving("operator", key, only_tools=_bare_path(folder / "bin")) as bare,
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        ports = {
            "good": server.port,
            "n-down": closed.getsockname()[1],
            "n-hangs": silent.getsockname()[1],
            "n-other-key": other.port,
            "n-no-tools": bare.port,
        }
        closed.close()
        known = [
            f"[127.0.0.1]:{port} {server.host_key.get_name()} {_shown(name, server, bare).get_base64()}"
            for name, port in ports.items()
        ]
        (folder / "known_hosts").write_text("\n".join(known) + "\n", encoding="ascii")
        hosts = {
            name: {"ansible_host": "127.0.0.1", "ansible_port": port, "ansible_user": "operator"}
            for name, port in ports.items()
        }
        inventory: dict[str, Any] = {
            "all": {
                "hosts": hosts,
                "vars": {
                    "ansible_ssh_private_key_file": str(folder / "id"),
                    "ansible_ssh_common_args": f"-o UserKnownHostsFile={folder / 'known_hosts'}",
                },
            }
        }
        (folder / "site.yml").write_text(json.dumps(inventory), encoding="utf-8")
        with ThreadPoolExecutor() as pool:
            command = ("doctor", str(folder / "site.yml"), "--connect-timeout", str(CONNECT_S), "--interval", "0", "-o")
            ran = {output: pool.submit(_pdctl, *command, output) for output in ("table", "json")}
            yield {output: future.result() for output, future in ran.items()}


def _shown(name: str, server: Server, bare: Server) -> paramiko.PKey:
    return bare.host_key if name == "n-no-tools" else server.host_key


def _bare_path(folder: Path) -> Path:
    folder.mkdir()
    (folder / "sh").symlink_to(str(shutil.which("sh")))
    return folder


def _pdctl(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pdctl", *argv]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, stdin=subprocess.DEVNULL)


def test_each_bad_node_is_named_with_its_reason_and_the_good_one_completes(
    looked: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    ran = looked["json"]
    assert ran.returncode == 3, ran.stderr
    document = json.loads(ran.stdout)
    reasons = {entry["node"]: entry["reason"] for entry in document["incomplete"]}
    assert sorted(reasons) == sorted(BAD)
    for node, words in {
        "n-down": "connection refused",
        "n-hangs": f"no SSH banner within {CONNECT_S} s",
        "n-other-key": "host key is not the known one",
        "n-no-tools": "not installed: cat date grep",
    }.items():
        assert words in reasons[node]
    assert all(entry["hint"] for entry in document["incomplete"])
    assert {finding["subject"]["node"] for finding in document["findings"]} == {"good"}


def test_a_bad_node_stands_once_in_the_report_with_a_hint(
    looked: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    ran = looked["table"]
    lines = (ran.stdout + ran.stderr).splitlines()
    for node in BAD:
        (line,) = [number for number, text in enumerate(lines) if node in text]
        assert lines[line].startswith(f"INCOMPLETE  {node}: ")
        assert lines[line + 1].split()[0] == "fix"
    assert "good: looked" in ran.stderr
