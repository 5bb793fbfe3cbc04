"""A run whose process is killed leaves nothing at work, and goes on. Ansible runs for real, on this machine, in a folder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pdctl.deploy.process import carrying
from pdctl.provisioning.runs import State, all_runs, find_run, results

pytestmark = pytest.mark.timeout(900)

_DEADLINE_S = 240.0

# The second task hangs until somebody says that it need not.
_PLAYBOOK = """
- hosts: all
  gather_facts: false
  vars:
    verdict_at_end: true
    verdict_problems: []
    verdict_notices: []
  pre_tasks:
    - name: Change something
      ansible.builtin.copy:
        content: "{{ secret }}"
        dest: "{{ folder }}/{{ inventory_hostname }}"
        mode: "0600"
    - name: Take long
      ansible.builtin.command:
        argv: [sh, -c, 'echo >"$0"; until [ -e "$1" ]; do sleep 0.1; done', "{{ folder }}/begun", "{{ folder }}/go"]
      changed_when: false
  roles:
    - role: verdict
"""

_DRIVER = """
import dataclasses, sys
from pathlib import Path
from pdctl.provisioning.options import Options
from pdctl.provisioning.resume import options_of, resume, resumed, run_to_resume
from pdctl.provisioning.run import provision

folder, how = Path(sys.argv[1]), sys.argv[2]
playbook, variables = folder / "playbook.yml", (f"folder={folder}", "secret=hunter2")
quiet = lambda *_: None
if how == "begin":
    report = provision(Options(folder / "hosts.ini", playbook, extra_vars=variables), quiet, print)
else:
    run = run_to_resume(None)
    options = options_of(run, extra_vars=variables, forks=None, connect_timeout_s=None, become=False,
                         become_password=None, break_lock=False, while_serving=False)
    report = resume(resumed(run), dataclasses.replace(options, playbook=playbook), quiet, print)
print(report.run_id, *(f"{host.name}:{host.status}:{len(host.changes)}" for host in report.hosts))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "playbook.yml").write_text(_PLAYBOOK, encoding="utf-8")
    python = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    (tmp_path / "hosts.ini").write_text(f"n1 {python}\nn2 {python}\n", encoding="utf-8")
    return tmp_path


def _start(folder: Path, how: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", _DRIVER, str(folder), how]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def _told(folder: Path) -> int:
    """Tasks that the record says to have ended."""
    events = (folder / "state/pdctl/runs").glob("*/events.jsonl")
    return sum(path.read_text(encoding="utf-8").count('"event": "runner_on_ok"') for path in events)


def test_a_killed_run_goes_on_and_nothing_of_its_first_try_is_left(folder: Path) -> None:
    first = _start(folder, "begin")
    end = time.monotonic() + _DEADLINE_S
    while not (folder / "begun").exists() or _told(folder) < 2:
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(timeout=60)
    (run,) = all_runs()
    assert run.state is State.CUT_OFF
    assert carrying(run.id)
    assert list(run.folder.glob("private-*"))

    (folder / "go").touch()
    second = _start(folder, "resume")
    try:
        said, complained = second.communicate(timeout=_DEADLINE_S)
    finally:
        second.kill()
    assert second.returncode == 0, complained
    assert said.split() == [run.id, "n1:changed:1", "n2:changed:1"]
    assert carrying(run.id) == []
    assert not [path for path in run.folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    again = find_run(run.id)
    assert (again.state, results(again).faults, len(again.about["resumed"])) == (State.ENDED, (), 1)
