"""What a lab made on this machine, written down before it is made, so that a killed test run can be undone later.

A lab lives in one folder below `BASE`; its `ledger.jsonl` starts with the process that owns it. `sweep` undoes the labs
whose owner is gone. Only recorded resources are touched, and a process only if its start time still fits.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from tests.lab.commands import run

BASE = Path("/run/pdctl-lab")


class Ledger:
    """The folder and the record of one lab."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "ledger.jsonl"

    @classmethod
    def open(cls, name: str) -> "Ledger":
        folder = BASE / name
        folder.mkdir(parents=True, mode=0o700)
        ledger = cls(folder)
        ledger.process(os.getpid(), kind="owner")
        return ledger

    def process(self, pid: int, kind: str = "process") -> None:
        self._add(kind, pid=pid, start=psutil.Process(pid).create_time())

    def namespace(self, name: str) -> None:
        self._add("namespace", name=name)

    def mount(self, path: Path) -> None:
        self._add("mount", path=str(path))

    def undo(self) -> None:
        """End every process, then undo the rest in reverse, and remove the folder. Safe to repeat."""
        entries = self._entries()
        for entry in entries:
            if entry["kind"] == "namespace":
                _end_all_in(entry["name"])
        for entry in entries:
            if entry["kind"] == "process":
                _end(entry["pid"], entry["start"])
        for entry in reversed(entries):
            if entry["kind"] == "mount" and os.path.ismount(entry["path"]):
                # Lazily: a dying container may hold it for a moment longer.
                subprocess.run(["umount", "--lazy", entry["path"]], check=False, capture_output=True, timeout=30)
            elif entry["kind"] == "namespace" and Path("/run/netns", entry["name"]).exists():
                subprocess.run(["ip", "netns", "del", entry["name"]], check=False, capture_output=True, timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def owner_is_gone(self) -> bool:
        owner = next((entry for entry in self._entries() if entry["kind"] == "owner"), None)
        return owner is None or not _lives(owner["pid"], owner["start"])

    def _add(self, kind: str, **fields: Any) -> None:
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"kind": kind, **fields}) + "\n")

    def _entries(self) -> list[Mapping[str, Any]]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]


def sweep() -> None:
    """Undo every lab whose owner died without doing so."""
    for folder in sorted(BASE.glob("*")):
        ledger = Ledger(folder)
        if ledger.owner_is_gone():
            ledger.undo()


def _lives(pid: int, start: float) -> bool:
    try:
        return psutil.Process(pid).create_time() == start
    except psutil.Error:
        return False


def _end(pid: int, start: float) -> None:
    if not _lives(pid, start):
        return
    process = psutil.Process(pid)
    process.kill()
    try:
        process.wait(timeout=10)
    except psutil.TimeoutExpired as error:
        raise RuntimeError(f"process {pid} of a lab does not die") from error


def _end_all_in(namespace: str) -> None:
    """Everything that still runs in a namespace that a lab made: nodes, and SSH masters on the controller."""
    if not Path("/run/netns", namespace).exists():
        return
    for pid in run("ip", "netns", "pids", namespace).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
