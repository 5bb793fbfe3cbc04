"""What a node says is shown on a terminal as words, whatever it holds."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pdctl.provisioning.document import host_document
from pdctl.provisioning.outcome import Failure, Fold, HostResult
from pdctl.provisioning.progress import _table
from pdctl.provisioning.record import RunRecord

SAID = "[/etc/x] is [red]full\x1b[2J\x07"


def test_the_table_takes_no_message_for_markup_nor_passes_on_what_moves_the_cursor() -> None:
    fold = Fold([("n1", "10.0.0.1"), ("[/n2]", "10.0.0.2")])
    fold.hosts["n1"].failure = Failure("sysctl", "write", SAID)
    fold.hosts["[/n2]"].failure = Failure("sysctl", "write", "")
    screen = io.StringIO()
    Console(file=screen, width=80).print(_table(fold))
    assert "[/etc/x] is [red]full" in screen.getvalue() and "[/n2]" in screen.getvalue()
    assert "\x1b" not in screen.getvalue() and "\x07" not in screen.getvalue()


def test_a_shown_run_holds_nothing_that_moves_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    host = HostResult("n1", "10.0.0.1", failure=Failure("sysctl", "write", SAID), finished=True, touched=True)
    record = RunRecord("provision", {"inventory": "hosts.ini"}, {"n1": "10.0.0.1"})
    record.close(5, {"n1": host_document(host)})
    argv = [sys.executable, "-m", "pdctl", "runs", "show", "last"]
    shown = subprocess.run(argv, capture_output=True, text=True, env=dict(os.environ), timeout=60)
    assert "[/etc/x] is [red]full" in shown.stdout and "\x1b" not in shown.stdout
    document = json.loads(subprocess.run([*argv, "-o", "json"], capture_output=True, text=True, timeout=60).stdout)
    assert document["hosts"][0]["failure"]["message"] == SAID
