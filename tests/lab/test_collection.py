"""Plain Ansible with the installed collection plans for a node what pdctl plans for it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.commands import run
from tests.lab.nodes import Lab
from tests.lab.site import Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def test_the_collection_s_check_changes_as_many_tasks_as_pdctl_s(soak: None, lab: Lab, tmp_path: Path) -> None:
    lab.up(["n1"])
    (tmp_path / "site").mkdir()
    site = Site(lab, tmp_path / "site", {"prefill": ["n1"]})
    run(sys.executable, str(ROOT / "scripts" / "build_collection.py"), "--out", str(tmp_path))
    (archive,) = tmp_path.glob("pdctl-nodes-*.tar.gz")
    subprocess.run(
        [str(BIN / "ansible-galaxy"), "collection", "install", str(archive), "-p", str(tmp_path), "--offline"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    planned = site.provision(site.ini(), "--check", "-o", "json")
    said = lab.run(
        *(str(BIN / "ansible-playbook"), "-i", str(site.ini()), "pdctl.nodes.provision", "--check"),
        environment={"ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "LC_ALL": "C.UTF-8", "ANSIBLE_PIPELINING": "1"},
        timeout_s=240,
    )
    assert planned.host("n1")["changed"] > 0
    assert f"changed={planned.host('n1')['changed']} " in said and "failed=0" in said, said
