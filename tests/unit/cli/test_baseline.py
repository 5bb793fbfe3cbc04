"""The last known good of this host, and the doctor's look back at it."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdchecks.evidence import Evidence, own_blocks
from pdctl import baseline
from pdctl.app import app
from pdctl.errors import UsageError

RUN = CliRunner()
THEN = "=== cmd: uname -srm\n=== rc: 0\nLinux 5.10.0-1-amd64 x86_64\n=== end\n"
NOW = "=== cmd: uname -srm\n=== rc: 0\nLinux 6.1.0-1-amd64 x86_64\n=== end\n"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_without_one_the_look_back_says_how_to_get_it() -> None:
    with pytest.raises(UsageError, match="no last known good"):
        baseline.baseline()
    done = RUN.invoke(app, ["doctor", "--since-good", "--interval", "0"])
    assert "no last known good" in str(done.exception)


def test_what_is_kept_is_this_hosts_evidence_and_private() -> None:
    baseline.keep()
    assert stat.S_IMODE(baseline.path().stat().st_mode) == 0o600
    commands = [block.command for block in baseline.baseline().blocks]
    assert commands[0] == "pdctl-collect begin"
    assert commands[-1] == "pdctl-collect end"


def test_a_place_that_cannot_be_written_is_said_and_breaks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file where the folder would be", encoding="utf-8")
    baseline.keep()
    assert "no last known good was kept" in capsys.readouterr().err


def test_the_look_back_names_what_changed(tmp_path: Path) -> None:
    baseline.path().parent.mkdir(parents=True)
    baseline.path().write_text(THEN, encoding="utf-8")
    now = tmp_path / "now.txt"
    now.write_text(NOW, encoding="utf-8")
    done = RUN.invoke(app, ["doctor", "--since-good", "--from", str(now), "-o", "json"])
    made = json.loads(done.stdout)
    (change,) = made["changes"]
    assert (made["schema"], change["kind"]) == ("pdctl.changes/1", "kernel")
    assert (change["before"]["value"], change["after"]["value"]) == ("5.10.0-1-amd64", "6.1.0-1-amd64")
    assert done.exit_code == 0


def test_two_sources_are_compared_and_contradictions_refused(tmp_path: Path) -> None:
    for name, text in (("a.txt", THEN), ("b.txt", NOW)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    pair = ["--diff", str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    done = RUN.invoke(app, ["doctor", *pair])
    assert "CHANGED kernel  b: kernel" in done.stdout
    assert "5.10.0-1-amd64 -> 6.1.0-1-amd64" in done.stdout
    assert isinstance(RUN.invoke(app, ["doctor", *pair, "--since-good"]).exception, UsageError)
    assert isinstance(RUN.invoke(app, ["doctor", *pair, "-o", "nagios"]).exception, UsageError)
    assert isinstance(RUN.invoke(app, ["doctor", *pair, "--symptom", "latency jitters"]).exception, UsageError)


def test_each_node_of_an_inventory_has_its_own_and_one_without_is_named() -> None:
    nodes = [Evidence(name, tuple(own_blocks(THEN))) for name in ("rack7/decode 1", "prefill-1", "ill-1")]
    assert baseline.keep_nodes(nodes, {"ill-1"}) == ["rack7/decode 1", "prefill-1"]
    assert stat.S_IMODE(baseline.path("prefill-1").stat().st_mode) == 0o600
    good = baseline.baselines(["prefill-1", "rack7/decode 1", "ill-1"])
    assert [one.node for one in good.evidence] == ["prefill-1", "rack7/decode 1"]
    assert good.evidence[0].blocks == nodes[1].blocks
    assert [(one.node, one.reason) for one in good.incomplete] == [("ill-1", "there is no last known good of it")]
    with pytest.raises(UsageError, match="no last known good of ill-1"):
        baseline.baselines(["ill-1"])


def test_what_keeps_a_good_look_needs_an_inventory_and_no_comparison(tmp_path: Path) -> None:
    (tmp_path / "inventory.ini").write_text("[all]\nnode-1\n", encoding="utf-8")
    assert isinstance(RUN.invoke(app, ["doctor", "--keep-good"]).exception, UsageError)
    both = ["doctor", str(tmp_path / "inventory.ini"), "--keep-good", "--since-good"]
    assert isinstance(RUN.invoke(app, both).exception, UsageError)
