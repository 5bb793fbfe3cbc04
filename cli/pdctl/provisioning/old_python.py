"""Nodes whose Python is older than this pdctl's Ansible speaks to: a second environment with ansible-core 2.16 for them.

The role `python` ends such a host's play before anything is touched. The run then takes those hosts once more through the same
playbook with the programs of `scripts_folder()`: same roles, same record.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pdctl.errors import UsageError
from pdctl.paths import cache_dir
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import Failure, HostResult
from pdctl.provisioning.runner import Ended, EventHandler, run_playbook

# The last ansible-core whose modules run under Python 2.7 and 3.6, and the Pythons that it runs under itself;
# https://docs.ansible.com/ansible/latest/reference_appendices/release_and_maintenance.html, support matrix.
ANSIBLE = "ansible-core==2.16.*"
PYTHONS = ("3.12", "3.11", "3.10")
# The task of the role `python` that ends the play of such a host.
TASK = "Leave a Python that this Ansible does not speak to"
_BUILD_DEADLINE_S = 600.0
_START_DEADLINE_S = 60.0


def run_with_both(
    options: Options,
    record: Path | None,
    hosts: Sequence[str] | None,
    results: Sequence[HostResult],
    on_event: EventHandler,
    *,
    passwords_in_inventory: bool,
) -> Ended:
    """`run_playbook`, and again with the second Ansible for those of `results` that ended because of their Python."""
    ended = run_playbook(options, record, hosts, on_event, passwords_in_inventory=passwords_in_inventory)
    old = too_old(results)
    if not old or ended.interrupted:
        return ended
    try:
        scripts = scripts_folder()
    except UsageError as error:
        explain(old, error)
        return ended
    names = [host.name for host in old]
    return run_playbook(
        options, record, names, on_event, passwords_in_inventory=passwords_in_inventory, scripts=scripts
    )


def too_old(hosts: Iterable[HostResult]) -> list[HostResult]:
    """Those that ended because of their Python, untouched."""
    return [host for host in hosts if host.failure and (host.failure.role, host.failure.task) == ("python", TASK)]


def explain(hosts: Iterable[HostResult], error: UsageError) -> None:
    """Say in each host's failure why the second environment could not be had."""
    why = "; ".join(filter(None, (error.message, error.detail, error.hint)))
    for host in hosts:
        if host.failure:
            host.failure = Failure(host.failure.role, host.failure.task, f"{host.failure.message}. {why}")


def scripts_folder() -> Path:
    """The folder of `ansible-playbook` of the second environment, which is built the first time (about ten seconds).

    Raises:
        UsageError: no Python of this machine can run it, or its packages cannot be installed.
    """
    folder = cache_dir() / ANSIBLE.rstrip(".*").replace("==", "-")
    complete = folder / ".complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A Python that was removed leaves an environment that does not start.
        if not complete.exists() or not _runs(folder / "bin" / "python"):
            shutil.rmtree(folder, ignore_errors=True)
            _build(folder, _python())
            complete.touch()
    return folder / "bin"


def _python() -> str:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable] if own in PYTHONS else []
    candidates += [found for version in PYTHONS if (found := shutil.which(f"python{version}"))]
    for candidate in candidates:
        if _runs(Path(candidate)):
            return candidate
    raise UsageError(
        "no Python of this machine can run ansible-core 2.16, which nodes with an old Python need",
        detail=f"it takes Python {', '.join(PYTHONS)}; none of them is on PATH",
        hint="Debian, Ubuntu: `apt-get install python3.12-venv`; RHEL family: `dnf install python3.12`; or `uv python install 3.12`",
    )


def _runs(python: Path) -> bool:
    # Shims of version managers are on PATH for versions that are not there.
    try:
        done = subprocess.run([python, "-c", "import venv"], capture_output=True, timeout=_START_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _build(folder: Path, python: str) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ANSIBLE]
    for argv in ([python, "-m", "venv", str(folder)], pip):
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_BUILD_DEADLINE_S)
            said = (done.stderr or done.stdout).strip()[-500:]
        except subprocess.TimeoutExpired:
            done, said = None, f"not done after {_BUILD_DEADLINE_S:g} s"
        if done is None or done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            raise UsageError(
                "the second environment, with ansible-core 2.16 for nodes with an old Python, cannot be made",
                detail=f"{' '.join(argv)}: {said}",
                hint="pip's own settings count (PIP_INDEX_URL, PIP_FIND_LINKS); on Debian and Ubuntu `python3 -m venv` needs the "
                "package python3-venv",
            )
