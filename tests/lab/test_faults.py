"""What breaks a converged node is named by the doctor, with nothing else, and goes away by the remedy that it prints."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.lab.cure import Fault, Findings, Key, bad, by_key, prove
from tests.lab.faults import CHOSEN, CURED_BY_ROLE, FAULTS, an_engine, start_engine
from tests.lab.nodes import Lab, Node
from tests.lab.site import Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

Apply = Callable[[Node, Mapping[str, Any]], list[str]]


@dataclass(frozen=True)
class Fit:
    """A node with the locale and limits of the policy, on which an engine's unit runs. before: what is bad all the same."""

    site: Site
    node: Node
    inventory: Path
    before: set[Key]

    def diagnose(self) -> Findings:
        return _diagnose(self.site, self.inventory)


def _diagnose(site: Site, inventory: Path) -> Findings:
    ran = site.diagnose(inventory, "--interval", "0")
    assert ran.document is not None, ran.stderr
    return by_key(ran.document["findings"])


@pytest.fixture(scope="module")
def fit(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    (node,) = lab.up(["n1"], an_engine)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})
    inventory = site.ini()
    ran = site.provision(inventory, "--tags", "locale,limits", "-o", "json")
    assert ran.code == 0, ran.stderr
    start_engine(node)
    return Fit(site, node, inventory, bad(_diagnose(site, inventory)))


def _by_role(fit: Fit) -> Apply:
    """By the role that the remedy names."""

    def apply(node: Node, remedy: Mapping[str, Any]) -> list[str]:
        assert remedy["role"]
        tags = ",".join(remedy["tags"])
        ran = fit.site.provision(fit.inventory, "--tags", tags, "-o", "json")
        assert ran.code == 0, ran.stderr
        return [f"pdctl provision INVENTORY --tags {tags}"]

    return apply


_SOAK = pytest.mark.skipif(os.environ.get("PDCTL_LAB_SOAK") != "1", reason="takes minutes; set PDCTL_LAB_SOAK=1")


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name, marks=() if fault.name in CHOSEN else _SOAK) for fault in FAULTS],
)
def test_a_fault_is_named_and_its_remedy_by_hand_cures_it(fit: Fit, fault: Fault[Node]) -> None:
    prove(fit.node, "node", fault, fit.before, fit.diagnose)


@_SOAK
@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.name in CURED_BY_ROLE], ids=lambda fault: fault.name
)
def test_a_fault_is_cured_by_its_role(fit: Fit, fault: Fault[Node]) -> None:
    prove(fit.node, "node", fault, fit.before, fit.diagnose, _by_role(fit))
