"""A whole deployment on this host, as an operator meets it: real engines, real model, and parts of it killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
from tests.contract.operator import LONG_S, Operator

from pdctl.deploy import process

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture
def operator(tmp_path: Path, embedded_model: Path) -> Iterator[Operator]:
    one = Operator(tmp_path)
    yield one
    one.pdctl("down")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, embedded_model: Path) -> Iterator[Operator]:
    """One deployment for every test that leaves it ready."""
    one = Operator(tmp_path_factory.mktemp("state"))
    up = one.pdctl("up", "--port", "0")
    assert up.returncode == 0, up.stderr
    yield one
    one.pdctl("down")


def _complete(endpoint: str) -> str:
    body = {"model": "SmolLM2-135M-Instruct", "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
    answer = httpx.post(f"{endpoint}/completions", json=body, timeout=60.0, trust_env=False)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_a_ready_deployment_answers_and_its_status_shows_that_kv_crossed(running: Operator) -> None:
    done = running.pdctl("status", "-o", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["schema"], document["phase"]) == (0, "pdctl.status/1", "ready")
    assert document["canary"]["passed"] and document["canary"]["kv_bytes"] > 0
    assert {unit["gpu_kind"] for unit in document["units"]} == {"cpu"}
    assert len({unit["pid"] for unit in document["units"]} | {document["supervisor"]["pid"]}) == 4
    assert "Paris" in _complete(document["endpoint"])


def test_the_ledger_of_an_idle_deployment_is_empty(running: Operator) -> None:
    done = running.pdctl("kv", "ledger", "-o", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["schema"]) == (0, "pdctl.ledger/1")
    assert [(each["role"], each["held"]) for each in document["engines"]] == [("prefill", []), ("decode", [])]
    assert running.pdctl("kv", "ledger").stdout.count("holds nothing") == 2


def test_the_engines_listen_on_loopback_only(running: Operator) -> None:
    document = running.status()
    pids = {unit["pid"] for unit in document["units"]}
    listening = {c.laddr.ip for c in psutil.net_connections("tcp") if c.pid in pids and c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


def test_no_secret_is_in_a_command_line_or_readable_by_others(running: Operator) -> None:
    root = running.state / "pdctl" / "deployments" / "local"
    secret = (root / "secret").read_text(encoding="utf-8").strip()
    assert len(secret) == 64
    assert all(path.stat().st_mode & 0o077 == 0 for path in root.rglob("*"))
    for each in process.carrying(running.run_mark()):
        assert secret not in Path(f"/proc/{each.pid}/cmdline").read_text(encoding="utf-8")
    for log in (root / "logs").iterdir():
        assert secret not in log.read_text(encoding="utf-8")


def test_a_capture_of_the_running_pair_is_whole_private_and_can_be_inspected(running: Operator, tmp_path: Path) -> None:
    endpoint, file = running.status()["endpoint"], tmp_path / "captured.kv"
    with ThreadPoolExecutor(1) as thread:
        capturing = thread.submit(running.pdctl, "kv", "capture", str(file), "--transfers", "2", "--seconds", "120")
        while not file.exists() or not file.stat().st_size:
            assert not capturing.done(), capturing.result().stderr
            time.sleep(0.1)
        for _ in range(2):
            _complete(endpoint)
        done = capturing.result(LONG_S)
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    inspected = running.pdctl("kv", "inspect", str(file))
    assert inspected.returncode == 0, inspected.stdout
    assert "2 requests; every frame verified, every shape as agreed" in inspected.stdout
    again = running.pdctl("kv", "capture", str(file))
    assert again.returncode == 2 and "exists already" in again.stderr
    damaged = bytearray(file.read_bytes())
    damaged[5000] ^= 1
    file.write_bytes(damaged)
    spoiled = running.pdctl("kv", "inspect", "-q", str(file))
    assert spoiled.returncode == 1 and "FAULT checksum is" in spoiled.stdout
    live = running.pdctl("kv", "inspect", "--live")
    assert live.returncode == 0 and live.stdout.count("whole and verified") >= 2


def test_the_engines_serve_nobody_who_does_not_hold_the_secret(running: Operator) -> None:
    secret = running.state / "pdctl" / "deployments" / "local" / "secret"
    units = {unit["role"]: unit["endpoint"] for unit in running.status()["units"]}
    for token in ("", secret.read_text(encoding="utf-8").strip(), "0" * 64):
        for url in (f"{units['prefill']}/v1/info", f"{units['decode']}/v1/ledger"):
            answer = httpx.get(url, headers={"x-pdctl-control": token}, timeout=10.0, trust_env=False)
            assert answer.status_code == 403
    assert httpx.get(f"{units['decode']}/health", timeout=10.0, trust_env=False).status_code == 200


def test_the_secret_of_a_running_deployment_is_rotated_without_a_gap(running: Operator) -> None:
    endpoint = running.status()["endpoint"]
    file = running.state / "pdctl" / "deployments" / "local" / "secret"
    before = file.read_text(encoding="utf-8")
    done = running.pdctl("secret", "rotate", "--window", "2")
    assert done.returncode == 0, done.stderr
    assert "prefill and decode take the new secret; the old one is taken until" in done.stdout
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 and lines[1].startswith(before.strip()) and file.stat().st_mode & 0o077 == 0
    assert "Paris" in _complete(endpoint)
    time.sleep(3.0)
    assert "Paris" in _complete(endpoint)
    assert running.pdctl("kv", "ledger").returncode == 0
    assert running.status()["phase"] == "ready"


def test_an_encrypted_deployment_comes_up_and_answers(tmp_path: Path, embedded_model: Path) -> None:
    one = Operator(tmp_path)
    (tmp_path / "pdctl.yaml").write_text("security: encrypted\nrouter: {port: 0}\n", encoding="utf-8")
    up = one.pdctl("up")
    try:
        assert up.returncode == 0, up.stderr
        assert "Paris" in _complete(up.stdout.strip())
        differing = one.pdctl("up", "--security", "authenticated")
        assert differing.returncode == 2 and "security: runs encrypted, asked for authenticated" in differing.stderr
    finally:
        one.pdctl("down")


def test_up_twice_does_nothing_and_says_since_when_it_runs(running: Operator) -> None:
    before = running.status()
    again = running.pdctl("up")
    assert again.returncode == 0 and "ready since" in again.stderr
    assert again.stdout.strip() == before["endpoint"]
    assert [unit["pid"] for unit in running.status()["units"]] == [unit["pid"] for unit in before["units"]]


def test_up_with_other_settings_is_refused_naming_them(running: Operator) -> None:
    done = running.pdctl("up", "--dtype", "bfloat16")
    assert done.returncode == 2
    assert "dtype: runs float32, asked for bfloat16" in done.stderr and "pdctl down" in done.stderr


def test_a_busy_port_is_a_clear_error_before_anything_starts(running: Operator) -> None:
    port = running.status()["endpoint"].rpartition(":")[2].partition("/")[0]
    done = running.pdctl("up", "--name", "second", "--port", port)
    assert done.returncode == 4
    assert f"port {port}" in done.stderr and f"pid {running.pid('router')}" in done.stderr
    assert json.loads(running.pdctl("status", "--name", "second", "-o", "json").stdout)["phase"] == "absent"


def test_two_operators_exclude_each_other_by_name(running: Operator) -> None:
    from pdserve import filelock

    lock = running.state / "pdctl" / "deployments" / "local" / "operator.lock"
    with filelock.hold(lock, "`pdctl up` of alice on laptop, pid 1, since 09:00"):
        done = running.pdctl("up")
    assert done.returncode == 4 and "alice on laptop" in done.stderr


@pytest.mark.parametrize("role", ["prefill", "decode", "router"])
def test_a_killed_process_comes_back_and_is_let_in_by_a_canary(running: Operator, role: str) -> None:
    before = running.status()
    killed = running.pid(role)
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while running.status()["phase"] == "ready":
        assert time.monotonic() < deadline, "the death was not noticed"
    after = running.wait_for("ready")
    unit = next(unit for unit in after["units"] if unit["role"] == role)
    assert unit["pid"] != killed and unit["restarts"] >= 1
    assert after["canary"]["at"] > before["canary"]["at"] and after["canary"]["passed"]
    assert "Paris" in _complete(after["endpoint"])


def test_logs_show_one_role_or_all_with_their_names(running: Operator) -> None:
    one = running.pdctl("logs", "decode", "-n", "3")
    assert one.returncode == 0 and all(json.loads(line) for line in one.stdout.splitlines())
    everything = running.pdctl("logs", "-n", "1").stdout
    assert {line.partition(" ")[0] for line in everything.splitlines()} >= {"prefill", "decode", "router"}


def test_a_killed_supervisor_leaves_no_orphan_and_up_starts_afresh(operator: Operator) -> None:
    assert operator.pdctl("up", "--port", "0").returncode == 0
    mark, supervisor = operator.run_mark(), operator.status()["supervisor"]["pid"]
    os.kill(supervisor, signal.SIGKILL)
    assert process.wait_gone(process.carrying(mark), 5.0) == []
    done = operator.pdctl("status")
    assert done.returncode == 1 and "lost" in done.stdout
    again = operator.pdctl("up", "--port", "0")
    assert again.returncode == 0, again.stderr
    second = operator.run_mark()
    down = operator.pdctl("down")
    assert down.returncode == 0
    assert re.search(r"stopped router pid \d+, prefill pid \d+, decode pid \d+", down.stdout)
    assert process.carrying(second) == []
    assert "nothing runs" in operator.pdctl("down").stdout
    assert operator.pdctl("status").returncode == 3
    assert operator.pdctl("logs", "prefill").returncode == 0


def _broken_copy(model: Path, target: Path) -> Path:
    """The model with weights that are none."""
    target.mkdir()
    for file in model.iterdir():
        if file.suffix != ".safetensors":
            (target / file.name).write_bytes(file.read_bytes())
    (target / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0not json")
    return target


def test_a_model_that_cannot_be_loaded_is_rolled_back_with_the_engines_own_words(
    operator: Operator, embedded_model: Path
) -> None:
    broken = _broken_copy(embedded_model, operator.state / "broken")
    done = operator.pdctl("up", "--port", "0", "--model", str(broken))
    assert done.returncode == 4, done.stderr
    assert "did not come up: reference" in done.stderr and "last lines of the reference log" in done.stderr
    assert process.carrying(operator.run_mark()) == []
    after = operator.pdctl("status", "-o", "json")
    assert (after.returncode, json.loads(after.stdout)["phase"]) == (1, "failed")


def test_wrong_tokens_keep_the_router_closed_and_end_the_start(operator: Operator, embedded_model: Path) -> None:
    """The canary's own negative control: were its known tokens others, nothing would be let in."""
    cache = operator.state / "cache" / "pdctl"
    cache.mkdir(parents=True)
    (cache / "models").symlink_to(embedded_model.parent)
    operator.environment["XDG_CACHE_HOME"] = str(cache.parent)
    assert operator.pdctl("up", "--port", "0").returncode == 0
    operator.pdctl("down")
    (known,) = (cache / "canary").glob("*.json")
    document = json.loads(known.read_text(encoding="utf-8"))
    document["runs"][-1]["tokens"][-1] += 1
    known.write_text(json.dumps(document), encoding="utf-8")
    done = operator.pdctl("up", "--port", "0")
    assert done.returncode == 4
    assert "did not come up: canary: wrong tokens for a prompt of 257: token 7 differs" in done.stderr
    assert process.carrying(operator.run_mark()) == []


def test_a_prefill_that_comes_back_with_other_weights_is_not_let_in(operator: Operator, embedded_model: Path) -> None:
    model = operator.state / "model"
    model.mkdir()
    for file in embedded_model.iterdir():
        (model / file.name).symlink_to(file)
    assert operator.pdctl("up", "--port", "0", "--model", str(model)).returncode == 0
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1000:] = bytes(1000)
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").write_bytes(weights)
    os.kill(operator.pid("prefill"), signal.SIGKILL)
    deadline = time.monotonic() + 120
    while (canary := operator.status()["canary"])["passed"]:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    document = operator.status()
    assert document["phase"] == "degraded" and "model_digest" in canary["reason"], canary
    assert operator.pdctl("status").returncode == 1


def test_a_start_that_takes_too_long_names_what_it_waited_for(operator: Operator) -> None:
    done = operator.pdctl("up", "--port", "0", "--timeout", "0.5")
    assert done.returncode == 4
    assert re.search(r"waited 0\.\d s for|was not ready after", done.stderr), done.stderr
    assert "it was to be ready within 0.5 s: `--timeout SECONDS`" in done.stderr
    assert process.carrying(operator.run_mark()) == []


def test_an_interrupted_up_stops_what_it_started(operator: Operator) -> None:
    command = [sys.executable, "-m", "pdctl", "up", "--port", "0"]
    with subprocess.Popen(
        command, env=operator.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, encoding="utf-8"
    ) as up:
        assert up.stderr is not None
        for line in up.stderr:
            if "processes" in line:
                break
        mark = operator.run_mark()
        assert len(process.carrying(mark)) >= 4
        up.send_signal(signal.SIGINT)
        rest = up.stderr.read()
    assert up.returncode == 130 and "has been stopped" in rest
    assert process.carrying(mark) == []
    assert operator.status()["phase"] == "absent"


def test_down_ends_an_up_that_is_still_at_work(operator: Operator) -> None:
    command = [sys.executable, "-m", "pdctl", "up", "--port", "0"]
    with subprocess.Popen(
        command, env=operator.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, encoding="utf-8"
    ) as up:
        assert up.stderr is not None
        for line in up.stderr:
            if "processes" in line:
                break
        mark = operator.run_mark()
        down = operator.pdctl("down")
        rest = up.stderr.read()
    assert down.returncode == 0, down.stderr
    assert f"stopped `pdctl up` pid {up.pid}" in down.stdout and "to stop" in down.stderr
    assert up.returncode == 130 and "has been stopped" in rest
    assert process.carrying(mark) == []
    assert operator.status()["phase"] == "absent"


def test_a_unit_that_cannot_come_back_is_given_up_and_the_status_says_why(
    operator: Operator, embedded_model: Path
) -> None:
    """Its weights vanish while it serves: it loads no more. Prefill is lost; decode computes the prompts itself."""
    model = operator.state / "model"
    model.mkdir()
    for file in embedded_model.iterdir():
        (model / file.name).symlink_to(file)
    (operator.state / "pdctl.yaml").write_text(
        "restart: {first_delay_s: 0.1, limit: 2, window_s: 300}\nrouter: {port: 0}\n", encoding="utf-8"
    )
    up = operator.pdctl("up", "--model", str(model))
    assert up.returncode == 0, up.stderr
    (model / "model.safetensors").unlink()
    os.kill(operator.pid("prefill"), signal.SIGKILL)
    deadline = time.monotonic() + 120
    while next(unit for unit in operator.status()["units"] if unit["role"] == "prefill")["state"] != "failed":
        assert time.monotonic() < deadline, operator.status()
        time.sleep(0.3)
    done = operator.pdctl("status")
    assert done.returncode == 1
    assert "gave up after 2 restarts" in done.stdout and "last lines of the prefill log" in done.stdout


def test_up_in_the_foreground_takes_the_deployment_down_with_it(operator: Operator) -> None:
    command = [sys.executable, "-m", "pdctl", "up", "--port", "0", "--foreground"]
    with subprocess.Popen(
        command, env=operator.environment, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8"
    ) as up:
        assert up.stdout is not None
        endpoint = up.stdout.readline().strip()
        mark = operator.run_mark()
        assert endpoint.startswith("http://127.0.0.1:")
        up.send_signal(signal.SIGTERM)
        assert up.wait(60) == 0
    assert process.carrying(mark) == []


def test_a_model_that_is_not_there_is_a_usage_error(operator: Operator) -> None:
    done = operator.pdctl("up", "--model", "/nonexistent/model")
    assert done.returncode == 2 and "/nonexistent/model" in done.stderr


def test_a_host_without_the_kind_asked_for_says_what_it_has(operator: Operator) -> None:
    done = operator.pdctl("up", "--prefill", "h100", "--decode", "a100")
    assert done.returncode == 2 and "no `h100`" in done.stderr and "found here:" in done.stderr


def test_an_inventory_is_refused_by_name_until_it_can_be_used(operator: Operator) -> None:
    done = operator.pdctl("up", "-i", "inventory.ini")
    assert done.returncode == 2 and "-i" in done.stderr and "this host only" in done.stderr


def test_a_holder_of_the_default_port_is_named(operator: Operator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = operator.pdctl("up", "--port", str(port))
    assert done.returncode == 4 and f"pid {os.getpid()}" in done.stderr
