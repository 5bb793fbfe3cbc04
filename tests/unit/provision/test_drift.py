"""Which nodes `--drift` leaves alone, from what they answer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pdctl.inventory import Host, Inventory
from pdctl.provisioning import drift
from pdctl.provisioning.fingerprint import host_digests
from pdctl.provisioning.options import Options
from pdctl.reach.outcome import Outcome, Reached, Unreached

PLAYBOOK = Path("provision.yml")


def _inventory(folder: Path, **variables: Any) -> Inventory:
    host = Host("n1", "10.0.0.1", 22, None, None, "ssh", variables, ("prefill",))
    return Inventory(folder / "hosts.ini", (host,))


def _basis(inventory: Inventory, options: Options, **given: Any) -> str:
    return host_digests(inventory, given, drift.selection(options))("n1", "s")


def _word(**changed: Any) -> str:
    return json.dumps({"run": "r", "salt": "s", "basis": "b", "digest": "d", "now": "d", **changed})


def _settled(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    def everywhere(_hosts: Sequence[Host], _script: str, _options: Options) -> list[Outcome]:
        return [outcome]

    monkeypatch.setattr(drift, "_everywhere", everywhere)
    options = Options(Path("hosts.ini"), PLAYBOOK)
    return dict(drift.settled(_inventory(Path()), lambda name, salt: "b" if salt == "s" else "", options))


def test_a_node_that_is_as_its_last_run_left_it_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"a banner\npdctl-drift {_word()}\n"
    assert _settled(Reached("n1", said), monkeypatch) == {"n1": "r"}


@pytest.mark.parametrize(
    "outcome",
    [
        Reached("n1", f"pdctl-drift {_word(now='other')}\n"),
        Reached("n1", f"pdctl-drift {_word(basis='other')}\n"),
        Reached("n1", "pdctl-drift {}\n"),
        Reached("n1", "pdctl-drift [1\n"),
        Reached("n1", "pdctl-drift []\n"),
        Reached("n1", f"pdctl-drift {_word(more='x' * 70_000)}\n"),
        Reached("n1", "Traceback\n"),
        Unreached("n1", "no answer", f"pdctl-drift {_word()}\n"),
    ],
    ids=["drifted", "another basis", "no word", "torn", "a list", "too long", "broken", "not reached"],
)
def test_ansible_runs_where_anything_is_otherwise_or_not_known(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _settled(outcome, monkeypatch) == {}


def test_all_that_decides_what_a_run_does_to_a_node_is_in_its_basis(tmp_path: Path) -> None:
    inventory, options = _inventory(tmp_path, rack="a"), Options(tmp_path, PLAYBOOK, tags=("sysctl",))
    found = {_basis(inventory, options)}
    found.add(_basis(_inventory(tmp_path, rack="b"), options))
    found.add(_basis(inventory, Options(tmp_path, PLAYBOOK)))
    found.add(_basis(inventory, Options(tmp_path, PLAYBOOK, tags=("sysctl",), while_serving=True)))
    found.add(_basis(inventory, options, token="x"))
    (tmp_path / "policy.yml").write_text("sysctl: {}\n", encoding="utf-8")
    found.add(_basis(inventory, options))
    assert len(found) == 6


def test_how_a_run_is_made_is_not(tmp_path: Path) -> None:
    inventory = _inventory(tmp_path)
    one, other = Options(tmp_path, PLAYBOOK), Options(tmp_path, PLAYBOOK, forks=1, diff=True, limit="n1", canary=1)
    assert _basis(inventory, one) == _basis(inventory, other)
