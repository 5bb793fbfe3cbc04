"""Reference pages are made from the code and are never stale."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_generated_pages_are_fresh() -> None:
    argv = [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
