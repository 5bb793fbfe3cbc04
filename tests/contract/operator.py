"""Somebody who runs pdctl on this host."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LONG_S = 240


class Operator:
    """Somebody with a shell: runs pdctl with a state directory of its own and the cache of this user."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.environment = {**os.environ, "XDG_STATE_HOME": str(state)}

    @property
    def root(self) -> Path:
        """Of the deployment that is called what it is called by default."""
        return self.state / "pdctl" / "deployments" / "local"

    def pdctl(self, *arguments: str, timeout: float = LONG_S) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pdctl", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd=self.state, capture_output=True, encoding="utf-8", timeout=timeout
        )

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.pdctl("status", "-o", "json").stdout)
        return document

    def pid(self, role: str) -> int:
        return int(next(unit["pid"] for unit in self.status()["units"] if unit["role"] == role))

    def run_mark(self) -> str:
        return str(json.loads((self.root / "record.json").read_text(encoding="utf-8"))["run"])

    def wait_for(self, phase: str, within_s: float = 120.0) -> dict[str, Any]:
        deadline = time.monotonic() + within_s
        while (document := self.status())["phase"] != phase:
            assert time.monotonic() < deadline, f"still {document['phase']}: {document['reason']}"
            time.sleep(0.3)
        return document
