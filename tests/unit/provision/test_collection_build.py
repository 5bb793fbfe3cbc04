"""The roles are an Ansible collection too: it builds, installs, and its playbooks find roles, modules and filters by themselves."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "build_collection.py"
BIN = Path(sys.executable).parent


def _run(*command: str | Path, folder: Path) -> str:
    """Both streams. Away from the checkout, whose ansible.cfg must not help."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(folder),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
    }
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=240, stdin=subprocess.DEVNULL
    )
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(out)], capture_output=True, encoding="utf-8", timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = out.glob("pdctl-nodes-*.tar.gz")
    return found


@pytest.fixture(scope="module")
def installed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which Ansible finds the collection, and nothing else of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    said = _run(BIN / "ansible-galaxy", "collection", "install", archive, "-p", folder, "--offline", folder=folder)
    assert said.startswith("exit 0\n"), said
    (folder / "hosts.ini").write_text(
        f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n", encoding="utf-8"
    )
    return folder


def test_it_holds_every_role_and_plugin_once_and_no_plugin_inside_a_role(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = set(tar.getnames())
    roles = {path.name for path in (ROOT / "roles").iterdir() if (path / "tasks").is_dir()}
    assert {name.split("/")[1] for name in names if name.startswith("roles/")} == roles
    modules = {path.name for path in (ROOT / "roles").glob("*/library/*.py")}
    assert {
        Path(name).name for name in names if name.startswith("plugins/modules/") and name.endswith(".py")
    } == modules
    assert [name for name in names if name.startswith("roles/") and name.endswith(".py")] == []
    assert {"MANIFEST.json", "README.md", "LICENSE", "meta/runtime.yml"} <= names


@pytest.mark.parametrize("playbook", sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml")))
def test_each_playbook_is_found_by_its_full_name_and_reads(installed: Path, playbook: str) -> None:
    said = _run(
        *(BIN / "ansible-playbook", "-i", "hosts.ini", f"pdctl.nodes.{playbook}", "--syntax-check"), folder=installed
    )
    assert said.startswith("exit 0\n"), said


def test_its_filters_and_files_are_found_when_it_runs(installed: Path) -> None:
    """To the end as root; a login that is not root is told so by the collection's own filter."""
    said = _run(BIN / "ansible-playbook", "-i", "hosts.ini", "pdctl.nodes.preflight", "--check", folder=installed)
    assert "failed=0" in said if os.geteuid() == 0 else "is not root: use --become" in said, said


def test_its_modules_find_their_utilities(installed: Path) -> None:
    """Imported where they lie now, as Ansible packs them for a node."""
    modules = installed / "ansible_collections" / "pdctl" / "nodes" / "plugins" / "modules"
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    names = sorted(f"ansible_collections.pdctl.nodes.plugins.modules.{path.stem}" for path in modules.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-c", code, *names],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
