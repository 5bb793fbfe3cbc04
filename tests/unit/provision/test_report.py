"""What a person and a program read about a run."""

import json
from pathlib import Path

import jsonschema
import pytest

from pdctl.exit_codes import ExitCode
from pdctl.provisioning.document import document
from pdctl.provisioning.outcome import Change, Failure, HostResult
from pdctl.provisioning.record import RunRecord
from pdctl.provisioning.render import text
from pdctl.provisioning.run import Report

SCHEMA = Path(document.__code__.co_filename).with_name("provision.schema.json")


def _report() -> Report:
    changed = HostResult("甲一", "10.0.0.1", tasks=9, finished=True)
    changed.changes.append(Change("sysctl", "set", "/etc/x", [{"before": "a = 1\n", "after": "a = 2\n"}]))
    stubborn = HostResult("n2", "10.0.0.2", tasks=9, finished=True)
    stubborn.problems.append(
        {
            "role": "sysctl",
            "key": "net.core.rmem_max",
            "outcome": "refused",
            "wanted": "2",
            "live": "1",
            "errno": 13,
            "errno_name": "EACCES",
            "message": "writing: Permission denied (EACCES)",
        }
    )
    stubborn.notices.append({"role": "rdma", "key": "ib_uverbs", "message": "no module"})
    broken = HostResult(
        "n3", "10.0.0.3", failure=Failure("limits", "write", "no space left"), finished=True, touched=True
    )
    ghost = HostResult("n4", "10.0.0.4", unreachable="No route to host", finished=True)
    unfit = HostResult("n6", "10.0.0.6", failure=Failure("preflight", "python", "no Python\nworks"), finished=True)
    hosts = (changed, stubborn, broken, ghost, HostResult("n5", "10.0.0.5"), unfit)
    return Report(
        "20260101T000000Z-abcdef",
        Path("/r"),
        False,
        False,
        "n3 ended failed, so 1 host(s) were not begun",
        "2026-01-01T00:00:00",
        2.5,
        0.5,
        hosts,
        ExitCode.FAILED,
    )


def test_the_table_tells_every_ending_and_names_each_reason() -> None:
    assert text(_report(), diff=True).splitlines() == [
        "host  address   status       changed  refused",
        "甲一  10.0.0.1  changed      1        0",
        "n2    10.0.0.2  partly       0        1",
        "n3    10.0.0.3  failed       0        0",
        "n4    10.0.0.4  unreachable  0        0",
        "n5    10.0.0.5  untouched    0        0",
        "n6    10.0.0.6  unfit        0        0",
        "",
        "甲一:",
        "  change: sysctl : set",
        "  --- /etc/x",
        "  +++ /etc/x",
        "  @@ -1 +1 @@",
        "  -a = 1",
        "  +a = 2",
        "",
        "n2:",
        "  refused: sysctl: net.core.rmem_max (wanted 2, live 1): writing: Permission denied (EACCES)",
        "  note: rdma: ib_uverbs: no module",
        "",
        "n3:",
        "  failed at `limits : write`",
        "  no space left",
        "",
        "n4:",
        "  unreachable: No route to host",
        "",
        "n6:",
        "  unfit, and not touched: no Python works",
        "",
        "stopped: n3 ended failed, so 1 host(s) were not begun",
        "done in 2.5 s: 1 changed, 1 partly, 1 failed, 1 unfit, 1 unreachable, 1 untouched; run 20260101T000000Z-abcdef, record /r",
    ]


def test_the_json_of_every_ending_follows_its_schema() -> None:
    printed = json.loads(json.dumps(document(_report())))
    jsonschema.validate(printed, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert printed["schema"] == "pdctl.provision/1"
    assert printed["summary"] == {
        "ok": 0, "changed": 1, "reverted": 0, "partly": 1, "failed": 1, "unfit": 1, "unreachable": 1, "incomplete": 0,
        "untouched": 1,
    }  # fmt: skip


def test_a_record_is_private_and_says_that_it_runs_until_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("甲一 ansible_host=10.0.0.1\n", encoding="utf-8")
    (tmp_path / "policy.yml").write_text("limits: {nofile: 1000}\n", encoding="utf-8")
    record = RunRecord("provision", {"check": False}, {"甲一": "10.0.0.1"})
    record.keep_inventory(inventory)
    record.event({"event": "verbose", "stdout": "你好"})
    assert json.loads((record.folder / "run.json").read_text())["state"] == "running"
    record.close(5, {"a/b": {"status": "failed"}})
    about = json.loads((record.folder / "run.json").read_text())
    assert (about["state"], about["exit_code"]) == ("ended", 5)
    assert {path.name for path in (record.folder / "inventory").iterdir()} == {"hosts.ini", "policy.yml"}
    assert json.loads((record.folder / "hosts" / "a%2Fb.json").read_text()) == {"status": "failed"}
    assert (record.folder / "ansible.log").read_text(encoding="utf-8") == "你好\n"
    assert [path for path in record.folder.rglob("*") if path.stat().st_mode & 0o077] == []
