"""The two scripts that a node gets before a change: what makes it, and what undoes it unless it was confirmed."""

import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.provision.node_module import Programs, node_module

RUN = "20260101T000000Z-0a0b0c"
CHANGE = f"{RUN}.mtu"


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = node_module("confirm", "pdctl_change")
    monkeypatch.setattr(module, "FOLDER", tmp_path / "changes")
    monkeypatch.setattr(module, "BOOT_ID", tmp_path / "boot_id")
    (tmp_path / "boot_id").write_text("this boot\n", encoding="utf-8")
    (tmp_path / "changes" / CHANGE).mkdir(parents=True)
    return module


def _run(change: ModuleType, name: str, body: str) -> Path:
    folder: Path = change.FOLDER / CHANGE
    text = change.script("A test.", folder, f"{name}.log", body)
    change.keep(folder / name, text)
    assert (folder / name).stat().st_mode & 0o077 == 0
    subprocess.run(["/bin/sh", str(folder / name)], check=True, timeout=30, stdin=subprocess.DEVNULL)
    return folder


def test_every_step_has_its_turn_and_one_that_fails_is_told_with_its_words(change: ModuleType, tmp_path: Path) -> None:
    odd = tmp_path / "it's $HOME; odd"
    steps = [["touch", str(odd)], ["sh", "-c", "echo not so >&2; exit 3"], ["touch", str(tmp_path / "last")]]
    folder = _run(change, "apply", change.APPLY.format(steps=change.lines(steps)))
    assert odd.exists() and (tmp_path / "last").exists() and (folder / "made").exists()
    (line,) = change.log_of(folder)
    assert line.startswith("sh -c ") and "exit 3: not so" in line


def _revert(change: ModuleType, steps: list[list[str]]) -> str:
    return str(change.REVERT.format(apply="pdctl-no-such-unit", steps=change.lines(steps)))


def test_undoing_leaves_word_of_itself(change: ModuleType, tmp_path: Path) -> None:
    folder = _run(change, "revert", _revert(change, [["touch", str(tmp_path / "back")]]))
    assert (tmp_path / "back").exists()
    assert change.state_of(Programs({}), folder) == "undone"


def test_what_is_confirmed_is_not_undone_though_the_timer_fires(change: ModuleType, tmp_path: Path) -> None:
    (change.FOLDER / CHANGE / "claimed").mkdir()
    folder = _run(change, "revert", _revert(change, [["touch", str(tmp_path / "back")]]))
    assert not (tmp_path / "back").exists()
    assert not (folder / "undone").exists()


def test_a_confirmation_after_the_timer_fired_comes_too_late(change: ModuleType) -> None:
    folder = change.FOLDER / CHANGE
    (folder / "claimed").mkdir()
    assert change.disarm(Programs({}), folder) is False
    assert folder.is_dir()


def test_a_confirmed_change_leaves_nothing_on_the_node(change: ModuleType) -> None:
    folder = change.FOLDER / CHANGE
    assert change.disarm(Programs({}), folder) is True
    assert change.state_of(Programs({}), folder) == "absent"


@pytest.mark.parametrize(
    ("answers", "boot", "state"),
    [
        ({f"systemctl is-active --quiet pdctl-revert-{RUN}.timer": ""}, "this boot", "armed"),
        ({f"systemctl is-active --quiet pdctl-revert-{RUN}.service": ""}, "this boot", "undoing"),
        ({}, "this boot", "stuck"),
        ({}, "the boot before", "undone"),
    ],
)
def test_an_unconfirmed_change_is_told_by_its_units_and_its_boot(
    change: ModuleType, answers: dict[str, str], boot: str, state: str
) -> None:
    folder = change.FOLDER / CHANGE
    (folder / "about.json").write_text(json.dumps({"boot": boot, "window_s": 60, "armed": 0}), encoding="utf-8")
    assert change.state_of(Programs(answers), folder) == state


@pytest.mark.parametrize("name", ["../../etc", RUN, f"{RUN}.", f"{RUN}.MTU", f"{RUN}.a/b", f"x{RUN}.mtu"])
def test_no_other_folder_is_reached_by_a_change_s_name(change: ModuleType, name: str) -> None:
    assert change.CHANGE.match(name) is None
