"""`pdctl policy show`: each key's value, and which layer gave it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pdctl.app import app

RUN = CliRunner()


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "group_vars").mkdir()
    (folder / "host_vars").mkdir()
    (folder / "hosts.ini").write_text(
        "[prefill]\np1\np2\n[decode]\nd1\n[serving:children]\nprefill\ndecode\n", encoding="utf-8"
    )
    (folder / "policy.yml").write_text("fabric: {dscp: 40}\n", encoding="utf-8")
    (folder / "group_vars" / "serving.yml").write_text("pdctl_policy: {limits: {nofile: 7}}\n", encoding="utf-8")
    (folder / "group_vars" / "decode.yml").write_text(
        "pdctl_policy: {fabric: {mtu: {netdev: 9000}}}\n", encoding="utf-8"
    )
    (folder / "host_vars" / "p2.yml").write_text("pdctl_policy: {fabric: {dscp: 10}}\n", encoding="utf-8")
    return folder / "hosts.ini"


def _rows(*arguments: str) -> dict[tuple[str, str | None], tuple[Any, str]]:
    done = RUN.invoke(app, ["policy", "show", *arguments, "-o", "json"])
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    assert made["schema"] == "pdctl.policy/1"
    return {(row["key"], row["node"]): (row["value"], row["origin"]) for row in made["values"]}


def test_every_layer_is_named(inventory: Path) -> None:
    rows = _rows("-i", str(inventory))
    assert rows["fabric.dscp", "p1"] == (40, f"site {inventory.parent / 'policy.yml'}")
    assert rows["fabric.dscp", "p2"] == (10, "host p2")
    assert rows["fabric.mtu.netdev", "d1"] == (9000, "group decode")
    assert rows["limits.nofile", "p1"] == (7, "group serving")
    assert rows["limits.nofile", "d1"][1] == "default"
    assert rows["fabric.trust", None] == ("dscp", "default")


def test_the_table_says_the_origin_on_request(inventory: Path) -> None:
    plain = RUN.invoke(app, ["policy", "show", "fabric.dscp", "-i", str(inventory), "-l", "p2"]).stdout
    assert plain.split() == ["fabric.dscp", "10"]
    told = RUN.invoke(app, ["policy", "show", "fabric.dscp", "-i", str(inventory), "-l", "p2", "--origin"]).stdout
    assert told.split() == ["fabric.dscp", "10", "host", "p2"]


def test_keys_with_dots_can_be_read_back() -> None:
    assert ("sysctl[net.core.somaxconn]", None) in _rows("sysctl")


def test_a_key_that_does_not_exist_is_a_clear_error() -> None:
    done = RUN.invoke(app, ["policy", "show", "fabrik"])
    assert "no policy key begins with `fabrik`" in str(done.exception)


@pytest.mark.parametrize("command", ["policy show", "doctor --from"])
def test_a_key_that_nothing_reads_is_told_with_the_nearest(tmp_path: Path, command: str) -> None:
    site = tmp_path / "site.yml"
    site.write_text("fabric: {lossless_prority: 5, nosuch: 1}\nsysctl: {net.core.busy_poll: 50}\n", encoding="utf-8")
    evidence = tmp_path / "n1.txt"
    evidence.write_text("=== cmd: uname -r\n=== rc: 0\n6.8.0\n=== end\n", encoding="utf-8")
    more = [str(evidence)] if "--from" in command else []
    ran = CliRunner().invoke(app, [*command.split(), *more, "--policy", str(site)])
    assert [line for line in ran.stderr.splitlines() if line.startswith("warning")] == [
        f"warning: {site}: nothing reads `fabric.lossless_prority`; did you mean `fabric.lossless_priority`?",
        f"warning: {site}: nothing reads `fabric.nosuch`; the policy has no such key",
    ]
