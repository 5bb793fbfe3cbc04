"""The demo, as the README promises it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdctl.deploy.demonstration import compare, crossed
from pdserve.reference import ReferenceRun

FIGURES = {
    "path": "split", "prefill": "p0", "decode": "d0", "prompt_tokens": 36, "completion_tokens": 64, "layers": 30,
    "frames": 30, "kv_bytes": 1_658_880, "kv_seconds": 0.045, "kv_gb_per_s": 0.0369, "ttft_seconds": 0.211,
    "itl_p50_seconds": 0.0736, "itl_max_seconds": 0.1036,
}  # fmt: skip


def test_what_crossed_is_told_in_tokens_layers_bytes_rate_and_latencies() -> None:
    text = crossed(FIGURES)
    for figure in ("36 tokens x 30 layers", "1,658,880 bytes", "0.04 GB/s", "TTFT 211 ms", "73.6 ms"):
        assert figure in text


def test_an_answer_that_decode_computed_alone_does_not_claim_a_transfer() -> None:
    assert "nothing" in crossed({**FIGURES, "path": "recompute", "kv_bytes": 0, "kv_gb_per_s": None})


def test_a_difference_names_its_place_both_tokens_and_how_close_the_choice_was() -> None:
    equal, verdict = compare(ReferenceRun([1, 2, 3], [1.0, 0.25, 1.0]), [1, 9, 3])
    assert not equal
    assert "token 1" in verdict and "[2, 3]" in verdict and "[9, 3]" in verdict and "0.25" in verdict


@pytest.mark.parametrize("pair", [[1, 2], [1, 2, 3, 4], []])
def test_a_shorter_or_longer_answer_is_a_difference(pair: list[int]) -> None:
    assert not compare(ReferenceRun([1, 2, 3], [1.0, 1.0, 1.0]), pair)[0]


@pytest.mark.engine
@pytest.mark.timeout(400)
def test_the_demo_ends_0_with_equal_tokens_and_leaves_nothing_running(embedded_model: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pdctl", "demo", "--max-tokens", "16"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=380)
    assert done.returncode == 0, done.stderr
    assert "equal      all 16 token ids" in done.stdout and "GB/s" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("passed: ")
    after = done.stdout.split("equal  ")[1]
    assert "doctor     of this host: " in after and len(after.splitlines()) < 30
    assert "down:" in done.stderr and "stopped router" in done.stderr
    status = subprocess.run(
        [*command[:3], "status", "--name", "demo"], env=environment, capture_output=True, timeout=60
    )
    assert status.returncode == 3
