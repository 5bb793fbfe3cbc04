"""The KV benchmark runs, on a small workload, and what it measures arrived."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHOSEN = ["memcpy", "pdctl shm", "pdctl tcp", "raw socket", "pickle", "safetensors"]


def test_a_small_run_writes_the_page_with_every_contender_that_was_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench.kv", "--mib", "16", "--rounds", "1", "--no-prompt"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "engine"), *filter(None, sys.path)])
    run = subprocess.run(
        [*command, "--output", str(tmp_path), "--only", *CHOSEN],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "kv.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    assert "left out" not in page
    verified = [row for row in rows if row.endswith("| yes |")]
    assert len(verified) == 5, "shm, and tcp of one and four streams, plain and encrypted, verify by themselves"
    assert len(rows) == 1 + 3 + 8 + 2 + 2
