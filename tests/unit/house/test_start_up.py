"""`pdctl --help` is instant: nothing heavy is imported before it is needed."""

import subprocess
import sys
import time

HEAVY = ("torch", "transformers", "rich", "ansible", "ansible_runner", "paramiko", "pydantic", "httpx", "yaml")


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)


def _seconds(code: str) -> float:
    began = time.perf_counter()
    _run(code)
    return time.perf_counter() - began


HELP = "import sys; sys.argv = ['pdctl', '--help']; from pdctl.app import main; main()"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['pdctl', '--help']\nfrom pdctl.app import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('HEAVY', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    assert _run(code).stdout.splitlines()[-1] == "HEAVY []"


def test_help_costs_at_most_twice_an_import_of_typer() -> None:
    # Pairs, so that a machine busy with something else slows both sides; the best of each is the cost without it.
    pairs = [(_seconds(HELP), _seconds("import typer")) for _ in range(7)]
    ours, theirs = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    assert ours <= 2 * theirs, f"pdctl --help {ours:.3f} s, import typer {theirs:.3f} s"


def test_help_groups_commands_in_small_panels() -> None:
    panels: dict[str, int] = {}
    current = ""
    for line in _run(HELP).stdout.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            current = line[:-1]
        elif current not in ("", "Options") and line.startswith("  ") and line[2:3].strip():
            panels[current] = panels.get(current, 0) + 1
    assert set(panels) <= {"Start", "Diagnose", "Operate", "Develop"}
    assert all(1 <= count <= 8 for count in panels.values()), panels
