"""The wheel carries the Ansible content and nothing that git does not track."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONTENT = ("ansible.cfg", "playbooks", "roles", "inventories/sample")
PACKAGES = ("cli/pdctl", "engine/pdserve", "engine/pdwire", "checks/pdchecks")


def _tracked(*paths: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    # A file deleted but not yet committed is in no wheel.
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    out = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.startswith("pdctl-")}


def test_the_ansible_content_is_exactly_what_git_tracks(wheel_names: set[str]) -> None:
    shipped = {name.removeprefix("pdctl/_content/") for name in wheel_names if name.startswith("pdctl/_content/")}
    assert shipped == _tracked(*CONTENT)


def test_the_packages_are_exactly_what_git_tracks(wheel_names: set[str]) -> None:
    packed = {name for name in wheel_names if not name.startswith("pdctl/_content/")}
    assert packed == {name.split("/", 1)[1] for name in _tracked(*PACKAGES)}
