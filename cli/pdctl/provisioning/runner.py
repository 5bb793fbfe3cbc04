"""Drives one ansible-playbook through ansible-runner: environment, secrets, interruption, and nothing left behind."""

import contextlib
import json
import os
import shlex
import signal
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from pdctl.ansible_env import ansible_environment
from pdctl.deploy.process import RUN_VARIABLE, carrying, end
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdctl.provisioning.options import Options, shown
from pdctl.provisioning.record import PRIVATE
from pdctl.provisioning.ssh_masters import control_path_folder

EventHandler = Callable[[Mapping[str, Any]], None]

# How long ansible-playbook may take to end its workers after an interrupt.
_GRACE_S = 10.0
# ansible-runner looks at an interrupt this often.
_POLL_S = 1
_MOST_VARIABLES = 4 << 20
_BECOME_PROMPT = r"BECOME password.*:\s*$"


@dataclass(frozen=True, slots=True)
class Ended:
    """returncode: ansible-playbook's own, never passed on. said: what it printed outside of any task."""

    returncode: int
    interrupted: bool
    said: str


def run_playbook(
    options: Options,
    record: Path | None,
    hosts: Sequence[str] | None,
    on_event: EventHandler,
    *,
    passwords_in_inventory: bool,
    scripts: Path | None = None,
) -> Ended:
    """Run to the end. `on_event` gets each event as it comes. record: the run's folder, named by its id, under which
    nodes keep their former state; what Ansible is given lies in it meanwhile. None: nothing is kept.
    hosts: only these, of plain names; None: what the options select. scripts: the folder of another `ansible-playbook` than
    the one beside this interpreter.

    A first SIGINT, SIGTERM or SIGHUP ends ansible-playbook before its next task, a second one or `_GRACE_S` later by force. SSH
    masters and worker processes of the run are gone when this returns.

    Raises:
        UsageError: no ansible-playbook beside this interpreter, or `-e` that cannot be read.
    """
    from ansible_runner import Runner, RunnerConfig

    run = record.name if record else ""
    said: list[str] = []

    def handle(event: dict[str, Any]) -> bool:
        on_event(event)
        if event.get("event") in ("verbose", "error", "warning") and event.get("stdout"):
            said.append(str(event["stdout"]))
        # ansible-runner need not keep a file an event: the record does.
        return False

    with (
        tempfile.TemporaryDirectory(prefix=PRIVATE, dir=record) as private,
        control_path_folder() as sockets,
        _Stop() as stop,
    ):
        folder = Path(private)
        _write_private(folder / "env" / "settings", {"pexpect_timeout": _POLL_S})
        variables = {**extra_variables(options.extra_vars), "backup_run": run, **options.variables}
        _write_private(folder / "env" / "extravars", variables)
        if hosts is not None:
            # A file, since thousands of names do not fit into an argument.
            (folder / "hosts").write_text("".join(f"{name}\n" for name in hosts), encoding="utf-8")
        envvars = _environment(run, scripts or _scripts_folder(), sockets, folder / "tmp", passwords_in_inventory)
        config = RunnerConfig(
            private_data_dir=private,
            # Relative paths in an inventory mean the user's folder, as with ansible-playbook.
            project_dir=str(Path.cwd()),
            playbook=str(options.playbook),
            inventory=str(options.inventory.absolute()),
            tags=",".join(options.tags) or None,
            skip_tags=",".join(options.skip_tags) or None,
            forks=options.forks,
            cmdline=_flags(options, options.limit if hosts is None else f"@{folder / 'hosts'}"),
            envvars=envvars,
            passwords={_BECOME_PROMPT: options.become_password} if options.become_password is not None else None,
            quiet=True,
            suppress_output_file=True,
        )
        with _without(os.environ.keys() - envvars.keys()):
            config.prepare()
        runner = Runner(config=config, event_handler=handle, cancel_callback=stop.is_due)
        try:
            runner.run()
        finally:
            _kill([*stop.descendants, *psutil.Process().children(recursive=True)])
        return Ended(int(runner.rc or 0), stop.asked, "\n".join(said))


@contextlib.contextmanager
def _without(names: Iterable[str]) -> Iterator[None]:
    """ansible-runner adds what it is given to all that this process has."""
    taken = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(taken)


class _Stop:
    """Turns signals into an orderly end. Only the main thread may use it.

    ansible-playbook gets SIGTERM, whatever came here: it answers SIGINT with a KeyboardInterrupt, which Python drops when a
    fork is just under way, and then the run would go on to its end.
    """

    def __init__(self) -> None:
        self.asked = False
        self.descendants: list[psutil.Process] = []
        self._force_at = float("inf")
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "_Stop":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def is_due(self) -> bool:
        """Whether ansible-runner must kill its child now. Workers have sessions of their own, so they go first."""
        if time.monotonic() < self._force_at:
            return False
        _kill(psutil.Process().children(recursive=True))
        return True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            self._force_at = time.monotonic()
            return
        self.asked = True
        self._force_at = time.monotonic() + _GRACE_S
        # Remembered, because the workers are nobody's children once ansible-playbook is gone.
        self.descendants = psutil.Process().children(recursive=True)
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                child.terminate()


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        # psutil compares the start time too: a number that was given to another process is left alone.
        with contextlib.suppress(psutil.Error):
            process.kill()


def end_leftovers(runs: Iterable[str]) -> None:
    """Ends what a killed pdctl left here: workers finish their task, and SSH masters wait, without it.

    Raises:
        PdError: a process does not die.
    """
    if survivors := end(carrying(*runs), grace_s=0.0):
        raise PdError(
            f"an earlier run left process {survivors[0].pid} behind, and it does not die", code=ExitCode.INCOMPLETE
        )


def _environment(
    run: str, scripts: Path, sockets: Path, temporary: Path, passwords_in_inventory: bool
) -> dict[str, str]:
    environment = ansible_environment()
    environment |= {
        RUN_VARIABLE: run,
        "PATH": os.pathsep.join([str(scripts), environment.get("PATH", os.defpath)]),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        # Ours to remove: an ansible-playbook that is ended leaves its own behind.
        "ANSIBLE_LOCAL_TEMP": str(temporary),
        # ansible-runner switches host key checking off unless it is told.
        "ANSIBLE_HOST_KEY_CHECKING": environment.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
    }
    if not passwords_in_inventory:
        # A prompt for a passphrase or a host key would wait unseen on ansible-runner's terminal.
        environment["ANSIBLE_SSH_EXTRA_ARGS"] = (
            f"{environment.get('ANSIBLE_SSH_EXTRA_ARGS', '')} -o BatchMode=yes".strip()
        )
    return environment


def _scripts_folder() -> Path:
    scripts = Path(sysconfig.get_path("scripts"))
    if not (scripts / "ansible-playbook").exists():
        raise UsageError(
            f"no `ansible-playbook` in {scripts}, beside this Python",
            hint="install pdctl again in this environment, with its dependencies: ansible-core brings that program",
        )
    return scripts


def _flags(options: Options, limit: str | None) -> str:
    flags = ["--timeout", str(options.connect_timeout_s)]
    if limit is not None:
        # One word: a pattern may begin with a dash.
        flags.append(f"--limit={limit}")
    if options.check:
        flags.append("--check")
    if options.diff:
        flags.append("--diff")
    if options.become:
        flags.append("--become")
    if options.become_password is not None:
        flags.append("--ask-become-pass")
    return shlex.join(flags)


def extra_variables(given: tuple[str, ...]) -> dict[str, Any]:
    """One mapping from `key=value ...`, JSON, YAML and `@file`; later ones win. It never goes into argv."""
    import yaml
    from ansible.errors import AnsibleError
    from ansible.parsing.splitter import parse_kv

    from pdchecks import yaml_text
    from pdchecks.given_file import read_given

    merged: dict[str, Any] = {}
    for text in given:
        try:
            if text.startswith("@"):
                loaded = yaml_text.load(read_given(Path(text[1:]).expanduser(), _MOST_VARIABLES).decode("utf-8"))
            elif text.lstrip().startswith(("{", "[")):
                loaded = yaml_text.load(text)
            else:
                loaded = {str(key): str(value) for key, value in parse_kv(text).items()}
        except AnsibleError:
            # Its text quotes the value.
            raise UsageError(
                f"cannot read `-e {shown(text)}`", detail="a quote in it is not closed, or a jinja2 block"
            ) from None
        except (OSError, yaml.YAMLError, ValueError) as error:
            raise UsageError(f"cannot read `-e {shown(text)}`", detail=_why(error)) from None
        if isinstance(loaded, str) and loaded.startswith("$ANSIBLE_VAULT"):
            raise UsageError(
                f"`-e {shown(text)}` is a vault, and pdctl opens none there",
                hint="keep it beside the inventory: `group_vars/all/NAME.yml`",
            )
        if not isinstance(loaded, dict) or not loaded or "_raw_params" in loaded:
            raise UsageError(
                f"`-e {shown(text)}` names no variable", hint="`-e key=value`, `-e '{\"key\": 1}'` or `-e @file.yml`"
            )
        merged |= _plain(text, loaded)
    return merged


def _plain(given: str, loaded: dict[Any, Any]) -> dict[str, Any]:
    """As Ansible will read it from a file of JSON: a date is its text."""

    def date_text(value: Any) -> str:
        if isinstance(value, date):
            return str(value)
        raise TypeError

    try:
        plain: dict[str, Any] = json.loads(json.dumps(loaded, default=date_text))
    except (TypeError, ValueError):
        raise UsageError(
            f"cannot read `-e {shown(given)}`",
            detail="it holds a value or a key that JSON does not have (binary, a set)",
        ) from None
    return plain


def _why(error: Exception) -> str:
    """Without the text itself, which a YAML error quotes and which may hold a secret."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8"
    if isinstance(error.__cause__, ValueError):
        return "a value in it is none"
    return getattr(error, "problem", None) or str(error) or type(error).__name__


def _write_private(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump(document, stream, ensure_ascii=False)
