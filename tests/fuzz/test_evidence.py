"""Whatever stands in evidence, readers give facts or a reason, and never take longer than a second for a MiB.

PDCTL_EVIDENCE_INPUTS: how many damaged outputs; scripts/soak tries a million."""

import gc
import os
import time
from collections.abc import Iterator
from itertools import islice

import pytest
from tests.fuzz.evidence_mutants import mutants

from pdchecks.evidence import Evidence
from pdchecks.intake.pasted import read_pasted
from pdchecks.nodefacts import gather
from pdchecks.redaction.redactor import Redactor

INPUTS = int(os.environ.get("PDCTL_EVIDENCE_INPUTS", "3000"))
# Of this process alone, so that other work on the machine does not count; a short text may take a moment.
MOST_CPU_S = 0.25
MOST_CPU_S_OF_A_MIB = 1.0


@pytest.fixture(autouse=True)
def what_earlier_tests_left() -> Iterator[None]:
    """Is not looked through by the garbage collector meanwhile: a reader would pay for it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _bound(text: str) -> float:
    return MOST_CPU_S + MOST_CPU_S_OF_A_MIB * len(text) / (1 << 20)


def test_damaged_evidence_gives_facts_or_reasons_in_bounded_time() -> None:
    for number, block in enumerate(islice(mutants(1), INPUTS)):
        began = time.process_time()
        node = gather(Evidence("node", (block,)))
        took = time.process_time() - began
        broke = [unread.reason for unread in node.unread if "broke on this output" in unread.reason]
        assert not broke, (number, broke, block)
        assert took < _bound(block.output), (number, took, len(block.output), block.command, block.output[:200])


def test_damaged_pastes_are_cut_into_outputs_in_bounded_time() -> None:
    source = mutants(2)
    for number in range(INPUTS // 3):
        text = "\n".join(
            f"{mark}{block.command}\n{block.output}" for mark, block in zip(("$ ", "", "# "), source, strict=False)
        )
        began = time.process_time()
        read_pasted(text)
        took = time.process_time() - began
        assert took < _bound(text), (number, took, len(text), text[:300])


def test_damaged_evidence_is_redacted_in_bounded_time() -> None:
    for number, block in enumerate(islice(mutants(3), INPUTS // 10)):
        redactor = Redactor(b"k" * 32)
        began = time.process_time()
        redactor.learn(block.output)
        redactor(block.output)
        took = time.process_time() - began
        # Each address costs some hundred hashes the first time.
        assert took < 8 * _bound(block.output), (number, took, len(block.output), block.output[:200])
