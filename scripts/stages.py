"""The test stages, in order of cost. Every stage runs even when an earlier one failed; the exit code tells.

usage: stages.py [--list] [STAGE ...]
"""

# `--list` answers from whatever Python is there, also from one too old for pdctl.
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ROOMS = ["cli", "engine", "checks"]
TORCH_FREE = ["tests/unit/house", "tests/unit/wire", "tests/unit/checks", "tests/unit/cli"]
# Minutes, most of them Ansible's own: on the newest Python only.
SLOW_AND_TORCH_FREE = ["tests/unit/provision"]
PYTHONS = ("3.11", "3.12", "3.13")
UNIT_ONLY = ("-m", "not engine and not lab and not gpu")


@dataclass
class Outcome:
    ok: bool
    note: str = ""


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Counts) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Suite:
    """Tests for one pytest. name: of its report."""

    name: str
    args: tuple[str, ...]
    python: Path = Path(sys.executable)


@dataclass
class Run:
    """What one invocation of this script has seen so far."""

    scratch: Path
    counts: Counts = field(default_factory=Counts)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def command(self, *argv: str | Path, env: dict[str, str] | None = None) -> bool:
        line = [str(word) for word in argv]
        print(f"$ {' '.join(line)}", flush=True)
        return subprocess.run(line, cwd=ROOT, env=_environment(env)).returncode == 0

    def pytest(self, name: str, *args: str) -> Outcome:
        report = self.scratch / f"{name}.xml"
        ok = self.command(*_pytest(Path(sys.executable), report, args))
        return self._counted(ok, report)

    def side_by_side(self, suites: Sequence[Suite]) -> dict[str, Outcome]:
        """Suites that wait for nothing of each other, at the same time; what each printed comes when it has ended."""
        print(f"{', '.join(suite.name for suite in suites)}: side by side", flush=True)
        with ThreadPoolExecutor(len(suites)) as pool:
            return dict(zip((suite.name for suite in suites), pool.map(self._apart, suites), strict=True))

    def _apart(self, suite: Suite) -> Outcome:
        report = self.scratch / f"{suite.name}.xml"
        # The folder in which pytest keeps what it remembers would be one for all.
        argv = _pytest(suite.python, report, ("-p", "no:cacheprovider", *suite.args))
        ended = subprocess.run(argv, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"$ {' '.join(argv)}\n{ended.stdout.decode('utf-8', 'replace')}", flush=True)
        return self._counted(ended.returncode == 0, report)

    def _counted(self, ok: bool, report: Path) -> Outcome:
        counts = _read(report)
        with self._lock:
            self.counts.add(counts)
        return Outcome(ok, str(counts))


def _environment(more: dict[str, str] | None = None) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, **(more or {})}


def _pytest(python: Path, report: Path, args: Sequence[str]) -> list[str]:
    return [str(python), "-m", "pytest", "-q", "--durations=5", f"--junitxml={report}", *args]


def _read(report: Path) -> Counts:
    counts = Counts()
    if report.exists():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            counts.add(Counts(int(suite.get("tests", 0)) - failed - skipped, failed, skipped))
    return counts


def lint(run: Run) -> Outcome:
    roots = [*ROOMS, "tests", "scripts", "hatch_build.py"]
    results = [
        run.command(BIN / "ruff", "check", *roots),
        run.command(BIN / "ruff", "format", "--check", *roots),
        run.command(BIN / "lint-imports"),
        run.command(BIN / "yamllint", "-s", "."),
    ]
    return Outcome(all(results))


def types(run: Run) -> Outcome:
    return Outcome(
        all([run.command(sys.executable, "-m", "mypy"), run.command(BIN / "pyright", "--pythonpath", sys.executable)])
    )


def roles(run: Run) -> Outcome:
    env = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
    checks = [run.command(BIN / "ansible-lint", "--offline", env=env)]
    for playbook in sorted((ROOT / "playbooks").glob("*.yml")):
        argv = (BIN / "ansible-playbook", "--syntax-check", "-i", "localhost,", playbook)
        checks.append(run.command(*argv, env=env))
    return Outcome(all(checks))


def unit(run: Run) -> Outcome:
    rest = ("tests/unit", "tests/contract", "tests/fuzz", *(f"--ignore={path}" for path in TORCH_FREE))
    halves = [Suite("torch-free", (*TORCH_FREE, *UNIT_ONLY)), Suite("rest", (*rest, *UNIT_ONLY))]
    return _both(run.side_by_side(halves))


def pythons(run: Run) -> Outcome:
    """The rooms that need no torch, on every other supported Python that this machine has."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    suites = []
    for version in PYTHONS:
        found = _interpreter(version)
        if version == here or found is None:
            continue
        venv = ROOT / ".venvs" / version
        python = venv / "bin" / "python"
        if not python.exists():
            run.command(found, "-m", "venv", venv)
        packages = (
            "pytest>=8.3",
            "pytest-timeout>=2.3",
            "hypothesis>=6.120",
            "jsonschema>=4.23",
            "prometheus-client>=0.21",
            "build",
            "hatchling",
        )
        if not run.command(python, "-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", ".", *packages):
            return Outcome(False, f"{version}: install failed")
        rooms = TORCH_FREE + (SLOW_AND_TORCH_FREE if version == PYTHONS[-1] else [])
        present = [path for path in rooms if (ROOT / path).exists()]
        suites.append(Suite(version, (*present, *UNIT_ONLY), python))
    if not suites:
        return Outcome(True, "no other supported Python on this machine")
    return _both(run.side_by_side(suites))


def _both(outcomes: dict[str, Outcome]) -> Outcome:
    ok = all(outcome.ok for outcome in outcomes.values())
    return Outcome(ok, "; ".join(f"{name}: {outcome.note}" for name, outcome in outcomes.items()))


def engine(run: Run) -> Outcome:
    if not run.command(BIN / "pdctl", "model", "fetch"):
        return Outcome(False, "the embedded model could not be fetched")
    # Collecting the node modules' tests imports ansible's module library, which torch does not bear.
    apart = "--ignore=tests/unit/provision"
    return run.pytest("engine", "tests/unit", "tests/contract", "tests/engine", apart, "-m", "engine or gpu")


def demo(run: Run) -> Outcome:
    return Outcome(run.command(ROOT / "scripts" / "demo"))


def lab(run: Run) -> Outcome:
    """Elsewhere than as root on Debian or Ubuntu its tests skip, each with its reason."""
    can_install = os.geteuid() == 0 and Path("/etc/debian_version").exists()
    if can_install and not run.command(ROOT / "scripts" / "vm-packages"):
        return Outcome(False, "the packages of the lab could not be installed")
    return run.pytest("lab", "tests/lab", "-m", "lab")


STAGES: tuple[Callable[[Run], Outcome], ...] = (lint, types, unit, roles, engine, demo, lab, pythons)


def _interpreter(version: str) -> str | None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python{version}"))]
    for found in filter(None, candidates):
        # pyenv's shims are on PATH for versions that are not enabled, and fail when they run.
        if subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of the stages")
    parser.add_argument("stage", nargs="*")
    options = parser.parse_args()
    names = [stage.__name__ for stage in STAGES]
    unknown = sorted(set(options.stage) - set(names))
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)} (there are: {', '.join(names)})")
    if options.list:
        print("\n".join(names))
        return 0
    rows = []
    with tempfile.TemporaryDirectory(prefix="pdctl-test-") as scratch:
        run = Run(Path(scratch))
        for stage in STAGES:
            if options.stage and stage.__name__ not in options.stage:
                continue
            print(f"\n=== {stage.__name__}", flush=True)
            began = time.monotonic()
            outcome = stage(run)
            rows.append((stage.__name__, outcome, time.monotonic() - began))
    print("\n=== summary")
    for name, outcome, seconds in rows:
        print(f"{'ok  ' if outcome.ok else 'FAIL'} {name:<8} {seconds:7.1f} s  {outcome.note}")
    broken = [name for name, outcome, _ in rows if not outcome.ok]
    run.counts.failed = run.counts.failed or len(broken)
    print(f"tests: {run.counts}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
