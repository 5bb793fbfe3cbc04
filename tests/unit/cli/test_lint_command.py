"""`pdctl lint`: what it reads, what it prints, how it exits."""

import json
from pathlib import Path

from typer.testing import CliRunner

from pdctl.app import app

RUN = CliRunner()


def test_a_folder_is_read_and_findings_lead_to_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.sh").write_text("x\nroceadm -d\n", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("roceadm\n", encoding="utf-8")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0roceadm")
    done = RUN.invoke(app, ["lint", str(tmp_path)])
    assert done.exit_code == 1
    assert f"{tmp_path}/a/run.sh:2:1: fail PD-LINT-006" in done.stdout
    assert "1 fail in 1 file\n" in done.stdout
    assert "image.png" in done.stderr


def test_stdin_and_json() -> None:
    done = RUN.invoke(app, ["lint", "-", "-o", "json"], input="systemctl enable rdma\n")
    made = json.loads(done.stdout)
    (advice,) = made["advice"]
    assert (made["schema"], advice["rule"], advice["file"], advice["line"]) == (
        "pdctl.lint/1",
        "PD-LINT-011",
        "stdin",
        1,
    )
    assert advice["sources"]
    assert advice["right"]
    assert done.exit_code == 1


def test_nothing_flagged_is_zero_and_a_warning_may_pass(tmp_path: Path) -> None:
    file = tmp_path / "x.sh"
    file.write_text("iblinkinfo\n", encoding="utf-8")
    assert RUN.invoke(app, ["lint", str(file), "--fail-on", "fail"]).exit_code == 0
    assert RUN.invoke(app, ["lint", str(file), "--ignore", "PD-LINT-007"]).exit_code == 0
    assert RUN.invoke(app, ["lint", str(file), "--select", "PD-LINT-006"]).exit_code == 0
    assert RUN.invoke(app, ["lint", str(file)]).exit_code == 1


def test_what_cannot_be_read_is_named_and_no_pass(tmp_path: Path) -> None:
    binary = tmp_path / "x.bin"
    binary.write_bytes(b"\0\1")
    done = RUN.invoke(app, ["lint", str(binary)])
    assert done.exit_code == 3
    assert "no text" in done.stderr
    assert "no file or folder" in str(RUN.invoke(app, ["lint", str(tmp_path / "none")]).exception)
    assert "no lint rule begins" in str(RUN.invoke(app, ["lint", "-", "--select", "PD-XX"]).exception)


def test_explain_and_the_list_know_the_rules() -> None:
    assert "# PD-LINT-003: ECN switched off" in RUN.invoke(app, ["explain", "pd-lint-003"]).stdout
    assert "PD-LINT-003" in RUN.invoke(app, ["checks", "list", "--lint"]).stdout
