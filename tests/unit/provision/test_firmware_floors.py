"""Role firmware: floors by family, a gate before anything is burnt, and the stored version read back."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.provision.node_module import Answer, Programs, node_module

from pdchecks import units

firmware = node_module("firmware", "pdctl_firmware")

FAMILIES = {
    "connectx-6-dx": {"prefix": 22, "parts": [4125], "minimum": "22.31.1014", "recommended": "22.35.2000"},
    "connectx-4": {"prefix": 12, "parts": [4115], "minimum": None, "recommended": None},
}
CARD = {
    "device": "mlx5_0", "bus": "0000:81:00.0", "family": "connectx-6-dx", "running": "22.30.1004", "psid": "MT_0000000359",
    "maker": False, "minimum": "22.31.1014", "recommended": "22.35.2000", "state": "below-minimum",
}  # fmt: skip
QUERY = "mstflint -d 0000:81:00.0 query"
ONLINE = "mlxfwmanager --online -u -y -d 0000:81:00.0"


def _flash(version: str) -> str:
    return f"Image type:            FS4\nFW Version:            {version}\nPSID:                  MT_0000000359\n"


class Node(Programs):
    def __init__(self, answers: dict[str, Any], check_mode: bool = False, **params: Any) -> None:
        super().__init__(answers, check_mode)
        self.params = {"maintenance_until": "", "images": {}, **params}


def _card(folder: Path, name: str, **files: str) -> None:
    pci = folder / "pci" / f"0000:8{name[-1]}:00.0"
    pci.mkdir(parents=True)
    (pci / "device").write_text(files.pop("part", "0x101d") + "\n")
    (folder / "infiniband" / name).mkdir(parents=True)
    (folder / "infiniband" / name / "device").symlink_to(pci)
    for file, text in files.items():
        (folder / "infiniband" / name / file).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("files", "family", "state"),
    [
        ({"fw_ver": "22.30.1004"}, "connectx-6-dx", "below-minimum"),
        ({"fw_ver": "22.31.1014"}, "connectx-6-dx", "below-recommended"),
        # Fields are numbers: 9 is below 35.
        ({"fw_ver": "22.9.2000"}, "connectx-6-dx", "below-minimum"),
        ({"fw_ver": "22.35.2000"}, "connectx-6-dx", "good"),
        ({"fw_ver": "12.28.2006", "part": "0x1013"}, "connectx-4", "unknown"),
        # Soft RoCE, and another maker's card.
        ({"fw_ver": "0.0.0"}, "", "unknown"),
        ({"fw_ver": "1.66"}, "", "unknown"),
        ({}, "", "unknown"),
    ],
)
def test_a_card_is_compared_within_its_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], family: str, state: str
) -> None:
    monkeypatch.setattr(firmware, "SYS", tmp_path / "infiniband")
    _card(tmp_path, "mlx5_0", **files)
    (card,) = firmware.cards(FAMILIES, ["MT_"])
    assert (card["family"], card["state"], card["bus"]) == (family, state, "0000:80:00.0")


def test_below_the_minimum_fails_with_the_command_and_a_maker_s_image_is_only_told() -> None:
    problem, notice = firmware.judge(CARD)
    assert notice is None and "mlxfwmanager --online -u -d 0000:81:00.0" in problem["message"]
    problem, notice = firmware.judge({**CARD, "psid": "DEL0000000010", "maker": True})
    assert problem is None and "server maker" in notice["message"]
    problem, notice = firmware.judge({**CARD, "state": "below-recommended", "running": "22.32.1010"})
    assert problem is None and "below 22.35.2000" in notice["message"]


def test_role_and_doctor_know_an_engine_by_the_same_names() -> None:
    assert firmware.ENGINE.pattern == f"^{units._ENGINE.pattern}$"


UNITS = "systemctl list-units --type=service --state=active,activating --plain --no-legend"


@pytest.mark.parametrize(
    ("until", "units", "why"),
    [
        ("", "", "no maintenance window"),
        ("tonight", "", "is no time"),
        ("2020-01-01T00:00Z", "", "ended"),
        ("2999-01-01T00:00Z", "pdctl-decode.service loaded active running KV\n", "an engine runs here (pdctl-decode.service)"),
        ("2999-01-01T00:00Z", "chrony.service loaded active running NTP\n", ""),
    ],
)  # fmt: skip
def test_nothing_is_burnt_outside_a_window_or_under_an_engine(until: str, units: str, why: str) -> None:
    said = firmware.gate(Node({UNITS: units}, maintenance_until=until))
    assert why in said and bool(why) is bool(said)


def test_a_burnt_card_is_read_back_and_waits_for_its_reset() -> None:
    answers = [_flash("22.30.1004"), _flash("22.35.2000"), _flash("22.35.2000")]
    node = Node({QUERY: lambda: answers.pop(0), ONLINE: ""})
    assert firmware.burn(node, CARD) == ({"device": "mlx5_0", "bus": "0000:81:00.0", "stored": "22.35.2000"}, None)
    assert "22.35.2000 is stored, 22.30.1004 runs" in firmware.pending(node, CARD)["message"]


def test_a_card_that_waits_for_its_reset_is_not_burnt_again() -> None:
    node = Node({QUERY: _flash("22.35.2000"), ONLINE: ""})
    assert firmware.burn(node, CARD) == (None, None)
    assert ONLINE not in node.ran


def test_an_image_of_the_site_is_burnt_by_mstflint() -> None:
    burn = "mstflint -d 0000:81:00.0 -i /srv/fw.bin -y burn"
    answers = [_flash("22.30.1004"), _flash("22.36.1010")]
    node = Node({QUERY: lambda: answers.pop(0), burn: ""}, images={"MT_0000000359": "/srv/fw.bin"})
    assert firmware.burn(node, CARD)[0]["stored"] == "22.36.1010"


@pytest.mark.parametrize(
    ("answer", "words"),
    [((1, "", "-E- Failed to open device"), "Failed to open device"), ("", "the card holds 22.30.1004")],
)
def test_a_burn_that_did_not_take_is_refused(answer: str | Answer, words: str) -> None:
    done, problem = firmware.burn(Node({QUERY: _flash("22.30.1004"), ONLINE: answer}), CARD)
    assert done is None and words in problem["message"]


def test_a_node_without_tools_says_which() -> None:
    assert "neither mlxfwmanager nor mstflint" in firmware.burn(Node({}), CARD)[1]["message"]


def test_a_check_burns_nothing() -> None:
    node = Node({QUERY: _flash("22.30.1004"), ONLINE: ""}, check_mode=True)
    assert firmware.burn(node, CARD)[0]["stored"] == "22.35.2000"
    assert ONLINE not in node.ran
