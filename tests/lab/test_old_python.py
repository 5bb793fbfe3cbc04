"""A node whose only Python is 3.6 is converged beside an ordinary one, by the second Ansible, and rolled back by it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Ran, Site, differences, snapshot

from pdctl.errors import UsageError
from pdctl.provisioning.old_python import scripts_folder

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

TAGS = ("--tags", "sysctl,limits,time,mlx5,hugepages,gpu,firmware,engine")
KEYS = ("net.core.somaxconn", "net.ipv4.tcp_rmem")


def _old() -> Path | None:
    """A Python of pyenv that ansible-core 2.19 does not speak to."""
    found = sorted(Path.home().glob(".pyenv/versions/3.6.*"))
    return found[-1] if found else None


@pytest.fixture(scope="module")
def site(soak: None, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    old = _old()
    if old is None:
        pytest.skip("no Python 3.6 on this machine to give to a node: pyenv install 3.6")
    try:
        second = scripts_folder().parent
    except UsageError as error:
        pytest.skip(f"{error.message}: {error.detail}")

    def only_3_6(root: Path) -> None:
        shutil.copytree(old, root / str(old).lstrip("/"), symlinks=True)
        for path in (root / "usr/bin").glob("python3*"):
            path.unlink()
        (root / "usr/bin/python3").symlink_to(old / "bin/python3")

    lab.up(["old"], only_3_6)
    lab.up(["new"])
    # The lab's user has a cache of its own.
    cache = lab.known_hosts.parent.parent / "cache" / "pdctl"
    cache.mkdir(parents=True)
    (cache / second.name).symlink_to(second)
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["old"], "decode": ["new"]})


@pytest.fixture(scope="module")
def runs(site: Site) -> tuple[Ran, Ran, Ran]:
    check, first, second = (site.provision(site.ini(), *more, "-o", "json", *TAGS) for more in (("--check",), (), ()))
    return check, first, second


def test_both_nodes_are_converged_and_the_check_had_said_so(runs: tuple[Ran, Ran, Ran]) -> None:
    check, first, _second = runs
    assert first.code == 0, first.stderr
    for name in ("old", "new"):
        changes = [(change["role"], change["task"]) for change in first.host(name)["changes"]]
        assert changes == [(change["role"], change["task"]) for change in check.host(name)["changes"]]
        assert {"sysctl", "limits", "engine"} <= {role for role, _task in changes}


def test_a_second_run_changes_nothing_on_either(runs: tuple[Ran, Ran, Ran]) -> None:
    second = runs[2]
    assert {name: (second.host(name)["status"], second.host(name)["changed"]) for name in ("old", "new")} == {
        "old": ("ok", 0), "new": ("ok", 0),
    }  # fmt: skip


def test_the_node_was_spoken_to_with_its_own_python(site: Site, runs: tuple[Ran, Ran, Ran]) -> None:
    assert site.lab.nodes["old"].ssh("python3 -V").startswith("Python 3.6")
    refused = [json.loads(line) for line in (site.record(runs[1]) / "events.jsonl").read_text("utf-8").splitlines()]
    asked = [event for event in refused if (event.get("event_data") or {}).get("host") == "old"]
    assert len([event for event in asked if event["event"] == "runner_on_failed"]) == 1


def test_the_way_back_takes_the_same_way(site: Site, runs: tuple[Ran, Ran, Ran]) -> None:
    provisioned = {name: snapshot(node, KEYS) for name, node in site.lab.nodes.items()}
    back = site.pdctl("runs", "rollback", runs[1].document["run"]["id"], "-o", "json")
    assert back.code == 0, back.stderr
    for name, node in site.lab.nodes.items():
        assert back.host(name)["problems"] == []
        assert differences(provisioned[name], snapshot(node, KEYS)) != []
        assert "no account" in node.ssh("getent passwd pdctl || echo no account")
