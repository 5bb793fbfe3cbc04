"""Damaged frames and HELLOs by the thousand: no crash, no hang, no memory. Three sources, one target (`target.feed`).

PDCTL_FUZZ_INPUTS: how many in all. `scripts/soak` asks for a million.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.target import INSPECTED, OPEN, PREFILL_HEARS, RESEALED, feed, seeds
from tests.unit.wire.peers import TINY_PREFILL, control_frames, kv_body, layer_frames

from pdwire import Frame, LayerFrame, seal

INPUTS = int(os.environ.get("PDCTL_FUZZ_INPUTS", "3000"))
BY_HYPOTHESIS = INPUTS // 20
BY_MUTATION = INPUTS // 2
BY_COVERAGE = INPUTS - BY_HYPOTHESIS - BY_MUTATION
MOST_MIB = 64
CORPUS = Path(__file__).parent / "corpus"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(14_400)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), str(ROOT)])}
    # The peak of a process begins at that of the one that started it: here at that of all tests before. A shell between has none.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-m", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=120 + INPUTS / 10,
    )


def test_what_fuzzers_once_found_is_still_harmless() -> None:
    inputs = sorted(CORPUS.iterdir())
    assert len(inputs) >= 50
    for path in inputs:
        feed(path.read_bytes())


def test_a_sound_conversation_is_understood() -> None:
    """So that the target cannot pass by refusing everything."""
    assert [feed(seed) > 0 for seed in seeds()].count(False) <= 1
    assert max(map(feed, seeds())) >= 5


def test_mutated_conversations_end_in_frames_or_in_an_error() -> None:
    done = run("tests.fuzz.run_mutants", str(BY_MUTATION), "2026")
    assert done.returncode == 0, done.stderr[-4000:]
    figures = json.loads(done.stdout)
    assert figures["inputs"] == BY_MUTATION and figures["grown_mib"] < MOST_MIB, figures
    assert figures["understood"] > BY_MUTATION / 20, "nearly nothing gets past the first check"


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="no atheris for this platform")
def test_inputs_that_are_guided_by_coverage_end_in_frames_or_in_an_error(tmp_path: Path) -> None:
    kept = Path(os.environ.get("PDCTL_FUZZ_KEEP", tmp_path))
    kept.mkdir(exist_ok=True)
    done = run("tests.fuzz.guided", str(BY_COVERAGE), str(CORPUS), str(kept))
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {BY_COVERAGE} in" in done.stderr


def _said(frame: Frame) -> bytes:
    body = [kv_body(frame)] if isinstance(frame, LayerFrame) else ()
    return b"".join(bytes(buffer) for buffer in seal(frame, body).buffers)


tiny_layers = st.builds(
    LayerFrame,
    request=st.just(bytes(15) + b"1"),
    layer=st.integers(0, 5),
    first_token=st.integers(0, 100),
    count=st.integers(1, 4),
    dtype=st.just(TINY_PREFILL.dtype),
    kv_heads=st.just(TINY_PREFILL.kv_heads),
    head_dim=st.just(TINY_PREFILL.head_dim),
)
conversations = st.lists(control_frames | layer_frames | tiny_layers, min_size=1, max_size=4)
damage = st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 7)), max_size=4)


@given(
    conversations,
    damage,
    st.integers(0, 255),
    st.sampled_from([0, OPEN, OPEN | PREFILL_HEARS, OPEN | RESEALED, RESEALED, INSPECTED, INSPECTED | RESEALED]),
)
@settings(max_examples=BY_HYPOTHESIS, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_any_frames_in_any_order_with_any_bits_flipped(
    frames: list[Frame], flips: list[tuple[int, int]], step: int, flags: int
) -> None:
    said = bytearray(b"".join(_said(frame) for frame in frames))
    for at, bit in flips:
        said[at % len(said)] ^= 1 << bit
    feed(bytes([flags, step]) + bytes(said))
