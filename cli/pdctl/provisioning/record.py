"""The folder of one run, below `state_dir()/runs/<id>`: what was asked, each event, how each host ended.

run.json        id, command, options, hosts, begin and end, hosts by status, exit code; `state: running` while it runs
events.jsonl    Ansible's events, one a line, and pdctl's own (`pdctl_resumed`); locked while the run is under way
hosts/NAME.json the result of one host
backups/NAME.json what the node kept of its state before the run, without large files
summary.json    the document that `-o json` prints
plan.json       the plan that was applied, where one was
inventory/      the inventory as it was, with the policy, group_vars and host_vars beside it (regular files only)
ansible.log     what Ansible printed
private-*       what Ansible is given, the values of `-e` too: gone when it ends; of a killed run, with the next one
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from pdctl.errors import UsageError
from pdctl.paths import state_dir
from pdctl.provisioning.inventory_copy import copy_regular
from pdctl.provisioning.operator import operator
from pdctl.provisioning.outcome import RESUMED

SCHEMA = "pdctl.run/1"
BACKUPS = "backups"
PLAN = "plan.json"
PRIVATE = "private-"
_LONGEST_NAME = 180
_BESIDE = ("policy.yml", "group_vars", "host_vars")


def file_of(host: str) -> str:
    """A name may hold a slash or a colon, and be longer than a file's may; no two names meet in one file."""
    quoted = quote(host, safe="")
    if len(quoted) > _LONGEST_NAME:
        quoted = f"{quoted[:_LONGEST_NAME]}-{hashlib.sha256(host.encode(errors='surrogateescape')).hexdigest()[:16]}"
    return f"{quoted}.json"


def runs_dir() -> Path:
    return state_dir() / "runs"


class RunRecord:
    """Open it before the run; `close` writes how it ended. Everything is for the owner's eyes only (0700, 0600)."""

    def __init__(
        self,
        command: str,
        options: Mapping[str, Any],
        hosts: Mapping[str, str],
        basis: Mapping[str, Any] | None = None,
    ) -> None:
        """hosts: name -> address of all that the run is about. basis: what a resumed run must find as it was."""
        now = datetime.now(UTC)
        self.started = now
        self.id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        self.folder = runs_dir() / self.id
        (self.folder / "hosts").mkdir(parents=True, mode=0o700)
        self.folder.chmod(0o700)
        self._begin(
            {
                "schema": SCHEMA,
                "id": self.id,
                "command": command,
                "options": dict(options),
                "hosts": dict(hosts),
                "basis": dict(basis or {}),
                "resumed": [],
            }
        )

    @classmethod
    def again(cls, folder: Path, about: Mapping[str, Any], hosts: Sequence[str]) -> "RunRecord":
        """The record of a run that goes on, with these hosts. about: what its run.json holds.

        Raises:
            UsageError: another process goes on with it.
        """
        record = cls.__new__(cls)
        record.id, record.folder = folder.name, folder
        record.started = datetime.fromisoformat(about["started"])
        resumed = [*about.get("resumed", ()), _stamp(datetime.now(UTC))]
        record._begin({**about, "resumed": resumed})
        record.event({"event": RESUMED, "hosts": list(hosts)})
        return record

    def _begin(self, about: Mapping[str, Any]) -> None:
        self.ended: datetime | None = None
        user, machine = operator()
        self._about = {**about, "controller": machine, "user": user, "pid": os.getpid()}
        self._events = _private(self.folder / "events.jsonl")
        try:
            fcntl.flock(self._events, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._events.close()
            raise UsageError(f"run {self.id} is under way", hint="`pdctl runs list` says since when") from None
        _cut_torn_line(self.folder / "events.jsonl")
        forget_private(self.folder)
        self._log = _private(self.folder / "ansible.log")
        self._write_about("running", None, {})

    def keep_inventory(self, source: Path) -> None:
        """Regular files only, bounded; `inventory/NOT-COPIED.txt` names what was left out and why."""
        target = self.folder / "inventory"
        target.mkdir(mode=0o700)
        beside = source if source.is_dir() else source.parent
        wanted = [source] if source.is_dir() else [source, *(beside / name for name in _BESIDE)]
        left_out = copy_regular([path for path in wanted if os.path.lexists(path)], target)
        if left_out:
            _write(target / "NOT-COPIED.txt", "".join(f"{line}\n" for line in left_out).encode(errors="replace"))

    def keep_plan(self, plan: Mapping[str, Any]) -> None:
        _write_json(self.folder / PLAN, plan)

    def event(self, event: Mapping[str, Any]) -> None:
        self._events.write(json.dumps(event, ensure_ascii=False) + "\n")
        self._events.flush()
        if event.get("stdout"):
            self._log.write(str(event["stdout"]) + "\n")

    def keep_backup(self, host: str, copy: Mapping[str, Any]) -> None:
        """copy: what came before the run, then what it left, which is added; or that nothing changed, which replaces it."""
        path = self.folder / BACKUPS / file_of(host)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        former = json.loads(path.read_bytes()) if path.exists() and "unchanged" not in copy else {}
        _write_json(path, {**former, **copy})

    def abandon(self) -> None:
        """Lets go of the files, and says nothing about the run."""
        self._events.close()
        self._log.close()

    def close(self, exit_code: int, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """hosts: name -> the host's part of the report."""
        self.ended = datetime.now(UTC)
        self.abandon()
        for name, result in hosts.items():
            _write_json(self.folder / "hosts" / file_of(name), result)
        self._write_about("ended", exit_code, Counter(str(result["status"]) for result in hosts.values()))

    def summary(self, document: Mapping[str, Any]) -> None:
        _write_json(self.folder / "summary.json", document)

    def _write_about(self, state: str, exit_code: int | None, summary: Mapping[str, int]) -> None:
        times = {"started": _stamp(self.started), "ended": _stamp(self.ended) if self.ended else None}
        how = {"state": state, "exit_code": exit_code, "summary": dict(summary)}
        _write_json(self.folder / "run.json", {**self._about, **times, **how})


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _private(path: Path) -> IO[str]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")


def forget_private(folder: Path) -> None:
    """Removes what Ansible was given by a run that was killed."""
    for left in folder.glob(f"{PRIVATE}*"):
        shutil.rmtree(left, ignore_errors=True)


def _cut_torn_line(path: Path) -> None:
    """What was being written when the run was cut off would run into the next line."""
    with path.open("r+b") as stream:
        size = end = stream.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - (1 << 16))
            stream.seek(begin)
            newline = stream.read(end - begin).rfind(b"\n")
            if newline >= 0:
                end = begin + newline + 1
                break
            end = begin
        if end < size:
            stream.truncate(end)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(content)
    partial.replace(path)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    _write(path, (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode())
