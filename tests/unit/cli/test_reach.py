"""Reaching nodes: each one that cannot be looked at is named with its reason, and the others complete."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from tests.unit.cli.ssh_server import Server, serving

from pdctl.inventory import Host
from pdctl.reach.fleet import run_everywhere
from pdctl.reach.local import run_local
from pdctl.reach.outcome import Reached, Unreached
from pdctl.reach.ssh_target import ssh_target

USER = "operator"


@pytest.fixture(scope="module")
def key() -> paramiko.ECDSAKey:
    return paramiko.ECDSAKey.generate()


@pytest.fixture
def server(key: paramiko.ECDSAKey) -> Iterator[Server]:
    with serving(USER, key) as server:
        yield server


@pytest.fixture
def identity(key: paramiko.ECDSAKey, tmp_path: Path) -> Path:
    path = tmp_path / "id_ecdsa"
    key.write_private_key_file(str(path))
    return path


def _known(tmp_path: Path, port: int, key: paramiko.PKey) -> str:
    path = tmp_path / "known_hosts"
    path.write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n", encoding="ascii")
    return f"-o UserKnownHostsFile={path}"


def _host(name: str, port: int, identity: Path, arguments: str, **variables: Any) -> Host:
    variables["ansible_ssh_common_args"] = arguments
    return Host(name, "127.0.0.1", port, USER, identity, "ssh", variables, ())


def _run(*hosts: Host, script: str = "echo here; uname", deadline_s: float = 20) -> list[Reached | Unreached]:
    return run_everywhere(hosts, lambda host: script, connect_s=5, deadline_s=deadline_s)


def test_a_node_with_a_known_key_runs_the_script(server: Server, identity: Path, tmp_path: Path) -> None:
    (outcome,) = _run(_host("n1", server.port, identity, _known(tmp_path, server.port, server.host_key)))
    assert isinstance(outcome, Reached), outcome
    assert outcome.output.splitlines()[0] == "here"


def test_an_unknown_host_key_is_refused(server: Server, identity: Path, tmp_path: Path) -> None:
    (outcome,) = _run(_host("n1", server.port, identity, f"-o UserKnownHostsFile={tmp_path / 'none'}"))
    assert isinstance(outcome, Unreached)
    assert "not found in known_hosts" in outcome.reason


def test_another_host_key_than_the_known_one_is_refused_even_when_new_ones_are_taken(
    server: Server, identity: Path, tmp_path: Path
) -> None:
    known = _known(tmp_path, server.port, paramiko.ECDSAKey.generate())
    (outcome,) = _run(_host("n1", server.port, identity, f"{known} -o StrictHostKeyChecking=accept-new"))
    assert isinstance(outcome, Unreached)
    assert "host key" in outcome.reason
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in outcome.hint


def test_a_wrong_user_key_is_named(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    paramiko.ECDSAKey.generate().write_private_key_file(str(other))
    (outcome,) = _run(_host("n1", server.port, other, _known(tmp_path, server.port, server.host_key)))
    assert isinstance(outcome, Unreached)
    assert f"authentication failed as `{USER}`" in outcome.reason


def test_down_hung_and_good_nodes_are_told_apart_and_none_waits_for_another(
    server: Server, identity: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    known = _known(tmp_path, server.port, server.host_key)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
        down_port = closed.getsockname()[1]
        closed.close()
        began = time.monotonic()
        good, hung, down = _run(
            _host("good", server.port, identity, known),
            _host("hung", silent.getsockname()[1], identity, known),
            _host("down", down_port, identity, known),
        )
    assert isinstance(good, Reached)
    assert isinstance(hung, Unreached)
    assert isinstance(down, Unreached)
    assert hung.reason.endswith("no SSH banner within 5 s")
    assert down.reason == f"127.0.0.1 port {down_port}: connection refused"
    assert "sshd" in hung.hint
    assert "firewall" in down.hint
    assert capfd.readouterr().err == ""
    assert time.monotonic() - began < 20


def test_a_port_that_is_not_ssh_is_named_with_what_it_did(identity: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as half, socket.create_server(("127.0.0.1", 0)) as shut:

        def say(listener: socket.socket, words: bytes, *, stay: bool) -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(words)
                while stay and peer.recv(1 << 16):
                    pass

        threads = [
            threading.Thread(target=say, args=(half, b"SSH-2.0-silent\r\n"), kwargs={"stay": True}),
            threading.Thread(target=say, args=(shut, b""), kwargs={"stay": False}),
        ]
        for thread in threads:
            thread.start()
        outcomes = run_everywhere(
            [_host(name, each.getsockname()[1], identity, "") for name, each in (("half", half), ("shut", shut))],
            lambda host: "echo",
            connect_s=1,
            deadline_s=20,
        )
        for thread in threads:
            thread.join(10)
    reasons = [outcome.reason.partition(": ")[2] for outcome in outcomes if isinstance(outcome, Unreached)]
    assert reasons == ["no SSH key exchange within 2 s", "it closed the connection without an SSH banner"]
    assert capfd.readouterr().err == ""


def test_a_script_that_does_not_end_is_cut_off_and_what_it_said_is_kept(
    server: Server, identity: Path, tmp_path: Path
) -> None:
    host = _host("n1", server.port, identity, _known(tmp_path, server.port, server.host_key))
    began = time.monotonic()
    (outcome,) = _run(host, script="sleep 60", deadline_s=2)
    assert isinstance(outcome, Unreached)
    assert "did not end within 2 s" in outcome.reason
    assert time.monotonic() - began < 15


def test_this_host_is_bounded_too() -> None:
    began = time.monotonic()
    outcome = run_local("here", "echo begin; sleep 60", 1)
    assert time.monotonic() - began < 10
    assert isinstance(outcome, Unreached)
    assert (outcome.reason, outcome.output) == ("the collector did not end within 1 s", "begin\n")
    assert "--timeout" in outcome.hint


def test_jump_hosts_and_options_are_read_as_ssh_reads_them(identity: Path) -> None:
    arguments = "-J bastion@203.0.113.7:2222 -oUserKnownHostsFile=/k -o 'StrictHostKeyChecking accept-new'"
    target = ssh_target(_host("n1", 22, identity, arguments))
    assert target.accept_new
    assert target.known_hosts[0] == Path("/k")
    (jump,) = target.jump
    assert (jump.user, jump.host, jump.port) == ("bastion", "203.0.113.7", 2222)
    assert jump.known_hosts[0] == Path("/k")
