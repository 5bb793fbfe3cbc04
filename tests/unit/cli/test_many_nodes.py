"""Many nodes are judged on all cores, and nothing comes out otherwise than one after the other.

PDCTL_BUNDLES: how many bundles of one node each; scripts/soak takes a thousand, and then the time is bounded."""

import os
import random
import re
import time
from pathlib import Path

import pytest

from pdchecks.redaction.redactor import Redactor
from pdctl import bundle, many_nodes
from pdctl.collection import Collected
from pdctl.diagnosis import examine, selected
from pdctl.evidence_source import read_sources
from pdctl.policy_source import policy_for

ROOT = Path(__file__).parents[3]
HEALTHY = (ROOT / "tests" / "data" / "nodes" / "healthy-roce-node.txt").read_text(encoding="utf-8")
BUNDLES = int(os.environ.get("PDCTL_BUNDLES", "60"))
# The goal on two cores; asked for only where that many are tried.
GOAL_BUNDLES, GOAL_S = 1000, 20.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nodes of one kind: each with its own addresses and counters, some with a fault."""
    folder = tmp_path_factory.mktemp("fleet")
    for number in range(BUNDLES):
        chance = random.Random(number)
        text = Redactor(number.to_bytes(32, "big"))(HEALTHY)
        text = re.sub(
            r"(_(?:packets|bytes): ?)(\d+)", lambda m, c=chance: f"{m[1]}{int(m[2]) + c.randrange(10**6)}", text
        )
        if number % 7 == 0:
            text = text.replace("mtu 4200", "mtu 1500")
        node = Collected(f"n{number:04}", "local", text, None)
        bundle.write(folder / f"n{number:04}.tar.zst", [node], lambda node: {}, interval_s=0, seconds=1)
    return folder


def test_a_folder_of_bundles_is_judged_alike_by_one_process_and_by_many(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    findings = examine(read_sources([str(fleet)]), policy_for(), selected([], []))
    took = time.monotonic() - began
    print(f"{BUNDLES} bundles in {took:.1f} s on {len(os.sched_getaffinity(0))} cores")
    assert {finding.subject.node for finding in findings} == {f"n{number:04}" for number in range(BUNDLES)}
    assert {f.subject.node for f in findings if f.topic == "mtu.netdev" and f.status == "warn"} == {
        f"n{number:04}" for number in range(0, BUNDLES, 7)
    }
    if BUNDLES >= GOAL_BUNDLES:
        assert took < GOAL_S * BUNDLES / GOAL_BUNDLES
    monkeypatch.setattr(many_nodes, "ENOUGH", BUNDLES + 1)
    assert examine(read_sources([str(fleet)]), policy_for(), selected([], [])) == findings


def test_a_process_that_dies_takes_no_finding_away(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = examine(read_sources([str(fleet)]), policy_for(), selected([], []))
    here = os.getpid()
    judged = many_nodes._judged

    def dies(*arguments: object) -> object:
        if os.getpid() != here:
            os._exit(9)
        return judged(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(many_nodes, "_judged", dies)
    assert examine(read_sources([str(fleet)]), policy_for(), selected([], [])) == whole
