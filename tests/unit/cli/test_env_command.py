"""`pdctl env`: an environment file that a shell, systemd and Docker read."""

import json
import subprocess
from pathlib import Path

from typer.testing import CliRunner

from pdctl.app import app
from pdctl.errors import PdError, UsageError

RUN = CliRunner()
EVIDENCE = (
    "=== cmd: decode-1: show_gids\n=== rc: 0\n"
    "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
    "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:c000:0207\t192.0.2.7  \tv2\tens4f0np0\nn_gids_found=1\n=== end\n"
)


def test_a_shell_reads_the_file(tmp_path: Path) -> None:
    evidence = tmp_path / "bundle.txt"
    evidence.write_text(EVIDENCE, encoding="utf-8")
    done = RUN.invoke(app, ["env", "--from", str(evidence)])
    assert done.exit_code == 0
    (tmp_path / "pins.env").write_text(done.stdout, encoding="utf-8")
    script = f'set -a; . {tmp_path}/pins.env; printf \'%s %s\' "$NCCL_IB_HCA" "$MC_GID_INDEX"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "=mlx5_0:1 3"


def test_json_and_the_errors(tmp_path: Path) -> None:
    evidence = tmp_path / "bundle.txt"
    evidence.write_text(EVIDENCE, encoding="utf-8")
    made = json.loads(RUN.invoke(app, ["env", "decode-1", "--from", str(evidence), "-o", "json"]).stdout)
    assert made["schema"] == "pdctl.env/1"
    assert {"name", "value", "reason"} == set(made["nodes"][0]["variables"][0])
    other = RUN.invoke(app, ["env", "decode-9", "--from", str(evidence)])
    assert isinstance(other.exception, UsageError)
    assert "it has decode-1" in str(other.exception.hint)
    evidence.write_text("=== cmd: decode-1: uname -r\n=== rc: 0\n6.1.0\n=== end\n", encoding="utf-8")
    none = RUN.invoke(app, ["env", "--from", str(evidence)]).exception
    assert isinstance(none, PdError)
    assert none.code == 1
    assert "show_gids" in str(none.hint)
    assert isinstance(RUN.invoke(app, ["env", "decode-1"]).exception, UsageError)
