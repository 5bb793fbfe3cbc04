"""Fixtures of more than one room."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The embedded model's directory, fetched and converted on first use (network, about half a minute)."""
    command = [sys.executable, "-m", "pdctl", "model", "fetch"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=280)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
