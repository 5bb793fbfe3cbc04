import pytest
from tests.unit.checks.parse.reading import node, read

from pdchecks.facts.host import Unit, UnitAsked


def test_show_gives_one_unit_a_paragraph() -> None:
    text = (
        "Id=pdctl-decode-0.service\nLoadState=loaded\nActiveState=failed\nSubState=failed\nUnitFileState=enabled\n"
        "NeedDaemonReload=yes\nResult=oom-kill\nNRestarts=5\n\nId=rdma.service\nLoadState=not-found\nActiveState=inactive"
    )
    first, second = read(Unit, "systemctl show -- pdctl-*.service rdma.service", text)
    assert (first.active, first.sub, first.result, first.restarts, first.stale) == (
        "failed",
        "failed",
        "oom-kill",
        5,
        True,
    )
    assert (second.name, second.load, second.restarts) == ("rdma.service", "not-found", 0)


@pytest.mark.parametrize("bullet", ["●", "○", "×", "*", ""])
def test_status_is_read_with_every_bullet(bullet: str) -> None:
    head = f"{bullet} openibd.service - configure Mellanox devices".strip()
    text = (
        f"{head}\n     Loaded: loaded (/lib/systemd/system/openibd.service; enabled; vendor preset: enabled)\n"
        "     Active: active (exited) since Tue 2026-03-03 10:11:12 UTC; 1 day ago\n   Main PID: 812 (code=exited)"
    )
    (unit,) = read(Unit, "systemctl status openibd", text)
    assert (unit.name, unit.load, unit.active, unit.enabled) == ("openibd.service", "loaded", "active", "enabled")


def test_status_of_a_failed_unit_says_how_it_ended() -> None:
    text = (
        "× x.service - x\n     Loaded: loaded (/etc/systemd/system/x.service; enabled; preset: enabled)\n"
        "     Active: failed (Result: start-limit-hit) since Tue 2026-03-03 10:11:12 UTC; 5min ago"
    )
    (unit,) = read(Unit, "systemctl status x", text, 3)
    assert (unit.active, unit.result) == ("failed", "start-limit-hit")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("systemctl status rdma", "Unit rdma.service could not be found."),
        ("systemctl enable rdma", "Failed to enable unit: Unit file rdma.service does not exist."),
        ("systemctl start rdma", "Failed to start rdma.service: Unit rdma.service not found."),
    ],
)
def test_a_unit_that_does_not_exist_was_asked_for(command: str, text: str) -> None:
    assert [asked.name for asked in read(UnitAsked, command, text, 5)] == ["rdma.service"]


def test_the_old_wording_names_no_unit_and_the_command_does() -> None:
    text = "Failed to enable unit: No such file or directory"
    assert [asked.name for asked in read(UnitAsked, "sudo systemctl enable rdma.service", text, 1)] == ["rdma.service"]


def test_a_host_without_systemd_is_unknown() -> None:
    text = "System has not been booted with systemd as init system (PID 1). Can't operate."
    assert "booted with systemd" in node("systemctl show -- x.service", text, 1).unread[0].reason
