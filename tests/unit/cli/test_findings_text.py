"""Findings as an operator reads and pastes them."""

from pathlib import Path

from typer.testing import CliRunner

from pdchecks.evidence import by_node, read_blocks
from pdchecks.finding import Finding, Status, document
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.registry import BY_ID
from pdchecks.run import diagnose
from pdctl.app import app
from pdctl.render.brief import brief

ROOT = Path(__file__).parents[3]
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])


def _policy(node: str) -> Policy:
    return POLICY


def _findings(fixture: str) -> list[Finding]:
    text = (ROOT / "tests" / "data" / "checks" / fixture).read_text(encoding="utf-8")
    return diagnose(by_node(read_blocks(text), "node"), _policy, [BY_ID[fixture.split("/")[0]]])


def _shown(fixture: str, columns: int = 110) -> list[str]:
    argv = ["doctor", "--from", str(ROOT / "tests" / "data" / "checks" / fixture), "--select", fixture.split("/")[0]]
    return [line.strip() for line in CliRunner().invoke(app, argv, env={"COLUMNS": str(columns)}).stdout.splitlines()]


def test_a_fix_that_survives_a_reboot_is_a_file_and_the_other_one_says_that_it_is_lost() -> None:
    lines = _shown("PD-NEIGH-001/warn-kernel-defaults.txt")
    recorded = [line for line in lines if line.startswith("echo 'net.ipv4.neigh.default.gc_thresh")]
    assert len(recorded) == 3 and all(line.endswith(">> /etc/sysctl.d/90-pdctl.conf") for line in recorded)
    assert "sysctl -p /etc/sysctl.d/90-pdctl.conf" in lines
    live = [line for line in lines if line.startswith("sysctl -w")]
    assert len(live) == 3 and all(line.endswith("# until the next reboot only") for line in live)


def test_a_command_is_never_broken_into_lines() -> None:
    lines = _shown("PD-NEIGH-001/warn-kernel-defaults.txt", columns=60)
    assert any(line.startswith("echo ") and line.endswith(".conf") for line in lines)


def test_a_memory_limit_without_rdma_is_information_with_its_reason() -> None:
    (finding,) = _findings("PD-LIMIT-001/info-no-rdma-device.txt")
    assert finding.status is Status.INFO
    assert "no RDMA device" in finding.summary


def test_a_summary_in_short_has_the_counts_the_failures_and_the_commands_for_the_rest() -> None:
    findings = _findings("PD-LIMIT-001/fail-64k-session.txt") + _findings("PD-LIMIT-001/pass-unlimited.txt")
    report = {**document(findings), "incomplete": [{"node": "n2", "reason": "no route to host"}]}
    lines = brief(report)
    assert lines[0].startswith("of this host: 1 fail") and "pass" in lines[0]
    assert lines[1].startswith("FAIL  PD-LIMIT-001  ") and len(lines[1]) < 120
    assert "no route to host" in lines[2] and "`pdctl doctor`" in lines[-1]
