"""What a node keeps before a run, and how it is put back: the modules themselves, on folders of the test."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.provision.node_module import answer_of, kept_below, node_module

from pdctl.provisioning.drift import look_script

RUN, BACK, AGAIN = "20260101T000000Z-000001", "20260101T000000Z-000002", "20260101T000000Z-000003"
LATER = "20260101T000000Z-000004"
OLD = b"old \xff\r\n\0"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[ModuleType]:
    with kept_below(tmp_path) as module:
        yield module


Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(state: ModuleType, capsys: pytest.CaptureFixture[str]) -> Call:
    return lambda name, **arguments: answer_of(node_module("backup", name), capsys, **arguments)


class Node:
    """A folder in place of a node: four paths that a run changes, and two kernel parameters."""

    def __init__(self, folder: Path, call: Call) -> None:
        self.folder, self._call = folder, call
        self.file, self.new = folder / "etc" / "file", folder / "etc" / "new"
        self.made, self.link = folder / "etc" / "made", folder / "etc" / "link"
        self.keys = {name: folder / "proc" / "net" / name for name in ("one", "two")}
        (folder / "etc").mkdir()
        self.file.write_bytes(OLD)
        self.file.chmod(0o640)
        self.link.symlink_to("file")
        for path in self.keys.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1\t2\n", encoding="utf-8")

    def begin(
        self, run: str = RUN, fabric: Sequence[Mapping[str, Any]] = (), also: Sequence[Path] = (), **more: Any
    ) -> dict[str, Any]:
        files = [
            {"path": str(path)} for path in (self.file, self.made, self.made / "inner", self.link, self.new, *also)
        ]
        managed = [{"impact": "restart-engine", "files": files}, {"sysctls": ["net.*"]}, {"fabric": list(fabric)}]
        return self._call("pdctl_backup", run=run, phase="begin", managed=managed, **more)

    def end(self, run: str = RUN, **more: Any) -> dict[str, Any]:
        return self._call("pdctl_backup", run=run, phase="end", managed=[], **more)

    def change(self) -> None:
        self.file.write_bytes(b"new\n")
        self.file.chmod(0o600)
        self.new.write_bytes(b"new\n")
        self.made.mkdir()
        (self.made / "inner").write_bytes(b"new\n")
        self.link.unlink()
        self.link.write_bytes(b"new\n")
        self.keys["two"].write_text("3 4\n", encoding="utf-8")

    def look(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {name: path.read_text().split() for name, path in self.keys.items()}
        for path in sorted((self.folder / "etc").rglob("*")):
            what = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[path.name] = (what, None if path.is_symlink() else path.stat().st_mode)
        return found

    def back(self, *, run: str = RUN, own: str = BACK, check: bool = False, **more: Any) -> dict[str, Any]:
        """As the role does: refuse or keep, say what comes back, put it back, keep what was left."""
        asked = {"run": run, "own_run": own, "check": check, **more}
        begun = self._call("pdctl_rollback", phase="begin", **asked)
        if begun.get("failed"):
            return begun
        look = self._call("pdctl_rollback", phase="look", **asked)
        if check or not look["records"]:
            return {**look, "changed": bool(look["records"])}
        done = self._call("pdctl_rollback", phase="record", **asked)
        if begun["kept"]:
            self.end(own)
        problems = [*look["problems"], *(each for each in done["problems"] if each not in look["problems"])]
        return {**look, "changed": done["changed"], "problems": problems}


@pytest.fixture
def node(tmp_path: Path, call: Call) -> Node:
    return Node(tmp_path, call)


def _changed(node: Node, *, ended: bool = True) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """(the former state, what travels to the controller)."""
    former, copy = node.look(), node.begin()["copy"]
    node.change()
    return former, {**copy, **(node.end()["copy"] if ended else {})}


@pytest.mark.parametrize("ended", [True, False], ids=["whole", "the run was cut off"])
def test_bytes_modes_links_folders_absence_and_live_values_come_back(node: Node, ended: bool) -> None:
    former, _copy = _changed(node, ended=ended)
    done = node.back()
    assert (done["changed"], done["problems"]) == (True, [])
    assert node.look() == former
    assert node.back(own=AGAIN)["changed"] is False
    assert any(each["key"] == "run" for each in done["notices"]) is not ended


def test_a_check_says_what_comes_back_and_touches_nothing(node: Node) -> None:
    _changed(node)
    before = node.look()
    done = node.back(check=True)
    assert node.look() == before
    shown = {part["before_header"]: part["after"] for part in done["diff"]}
    assert set(shown) == {*map(str, (node.file, node.new, node.made, node.made / "inner", node.link)), "/proc/sys"}
    assert shown["/proc/sys"] == "net.two = 1 2\n"
    assert shown[str(node.new)] == ""


def test_a_look_for_a_run_that_goes_on_sees_what_its_first_try_found(node: Node) -> None:
    found = node.begin(AGAIN, check=True)["copy"]["state"]
    assert node.begin(AGAIN, check=True, former=RUN)["copy"]["state"] == found
    node.begin()
    node.change()
    before = node.look()
    assert node.begin(AGAIN, check=True, former=RUN)["copy"]["state"] == found
    assert node.begin(AGAIN, check=True)["copy"]["state"] != found
    assert node.look() == before


def test_what_a_cut_off_run_wrote_counts_as_unread_until_a_run_over_all_roles_has_ended(node: Node) -> None:
    assert node.begin()["unread"] is False
    node.change()
    assert node.begin()["unread"] is True
    assert node.begin(BACK, check=True)["unread"] is True
    assert node.begin(BACK)["unread"] is True
    node.end(BACK, whole=False)
    assert node.begin(AGAIN)["unread"] is True
    node.end(AGAIN)
    assert node.begin(LATER, check=True)["unread"] is False


def test_a_rollback_can_be_rolled_back(node: Node) -> None:
    _changed(node)
    changed = node.look()
    node.back()
    assert node.back(run=BACK, own=AGAIN)["changed"] is True
    assert node.look() == changed


def test_what_was_changed_since_is_named_and_nothing_is_touched_unless_forced(node: Node) -> None:
    former, _copy = _changed(node)
    node.new.write_bytes(b"by hand\n")
    node.keys["two"].write_text("5 6\n", encoding="utf-8")
    before = node.look()
    refused = node.back()
    assert refused["failed"] and str(node.new) in refused["msg"] and "net.two" in refused["msg"]
    assert str(node.file) not in refused["msg"]
    assert node.look() == before
    assert node.back(force=True)["problems"] == []
    assert node.look() == former


def test_what_another_changed_and_the_run_did_not_is_left(node: Node) -> None:
    _changed(node)
    node.keys["one"].write_text("9\n", encoding="utf-8")
    assert node.back()["problems"] == []
    assert node.keys["one"].read_text() == "9\n"


def test_a_folder_that_holds_files_of_others_stays_and_the_check_says_so(node: Node) -> None:
    _changed(node)
    (node.made / "theirs").write_bytes(b"theirs\n")
    for check in (True, False):
        (problem,) = node.back(check=check)["problems"]
        assert (problem["key"], problem["outcome"]) == (str(node.made), "refused")
    assert [path.name for path in node.made.iterdir()] == ["theirs"]


def test_a_node_that_lost_its_backup_is_restored_from_the_copy(node: Node, state: ModuleType) -> None:
    former, copy = _changed(node)
    state.shutil.rmtree(state.KEPT)
    assert [each["outcome"] for each in node.back()["problems"]] == ["absent"]
    assert node.back(copy=json.loads(json.dumps(copy)))["problems"] == []
    assert node.look() == former


def test_content_that_is_not_what_was_kept_is_never_put_back(node: Node, state: ModuleType) -> None:
    _changed(node)
    for path in (state.KEPT / RUN / "content").iterdir():
        path.write_bytes(b"spoilt")
    for check in (True, False):
        problems = node.back(check=check)["problems"]
        assert [(each["key"], each["message"]) for each in problems] == [
            (str(node.file), "its former content was not kept")
        ]
    assert node.file.read_bytes() == b"new\n"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"paths": [], "sysctls": 1}'])
def test_a_damaged_backup_is_an_error_that_touches_nothing(node: Node, state: ModuleType, content: bytes) -> None:
    _changed(node)
    before = node.look()
    (state.KEPT / RUN / "before.json").write_bytes(content)
    assert RUN in node.back()["msg"]
    assert node.look() == before


def test_a_run_that_changed_nothing_keeps_only_that(node: Node, state: ModuleType) -> None:
    node.begin()
    assert node.end()["copy"] == {"unchanged": True}
    assert [path.name for path in (state.KEPT / RUN).iterdir()] == ["unchanged.json"]
    done = node.back()
    assert (done["changed"], done["problems"]) == (False, [])


def test_a_file_too_large_to_keep_is_told_once_the_run_has_changed_it(
    node: Node, state: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "LARGEST_KEPT", len(OLD) - 1)
    node.begin()
    node.change()
    assert [notice["key"] for notice in node.end()["notices"]] == [str(node.file)]
    assert [problem["key"] for problem in node.back(check=True)["problems"]] == [str(node.file)]


def test_where_nothing_can_be_kept_the_run_ends_before_it_begins(node: Node, state: ModuleType) -> None:
    state.KEPT.write_bytes(b"in the way")
    refused = node.begin()
    assert refused["failed"] and "nothing was changed" in refused["msg"]


def test_a_check_keeps_nothing(node: Node, state: ModuleType) -> None:
    node.begin(check=True)
    assert not state.KEPT.exists()


def test_the_oldest_runs_go_and_marks_take_no_room_from_them(
    node: Node, state: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MOST_KEPT", 2)
    monkeypatch.setattr(state, "MOST_MARKS", 1)
    runs = [f"20260101T00000{number}Z-000000" for number in range(6)]
    for number, run in enumerate(runs):
        node.begin(run)
        if number % 2:
            node.end(run)
    node.begin(AGAIN)
    kept = sorted(path.name for path in state.KEPT.iterdir())
    assert kept == sorted([runs[4], runs[5], AGAIN])


@pytest.mark.parametrize("run", ["../../etc", "", "20260101T000000Z-000001/.."])
def test_no_other_folder_is_reached_by_a_run_s_name(node: Node, run: str) -> None:
    assert "no id of a run" in node.back(run=run)["msg"]


class Services:
    """systemctl and userdel of a node: unit -> (at boot, running)."""

    def __init__(self) -> None:
        self.units = {"a.service": ("enabled", "active"), "b.service": ("disabled", "inactive")}

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        program, *words = argv
        unit = words[-1]
        if program == "systemctl" and words[0] == "show":
            if unit not in self.units:
                return 0, "LoadState=not-found\nUnitFileState=\nActiveState=inactive\n", ""
            at_boot, running = self.units[unit]
            return 0, f"LoadState=loaded\nUnitFileState={at_boot}\nActiveState={running}\n", ""
        if program != "systemctl":
            return 0, "", ""
        at_boot, running = self.units.get(unit, ("disabled", "inactive"))
        match words[1]:
            case "enable" | "disable":
                self.units[unit] = (f"{words[1]}d", running)
            case "start" | "stop":
                self.units[unit] = (at_boot, "active" if words[1] == "start" else "inactive")
            case _:
                pass
        return 0, "", ""


@pytest.fixture
def live(state: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("ansible.module_utils.pdctl_live")
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    return module


def test_a_unit_goes_back_to_its_state_at_boot_and_now(live: ModuleType) -> None:
    services = Services()
    former = live.look(services.run, live.names(["a.service", "b.service", "c.service"], []))
    assert former == {
        "unit a.service": "enabled active", "unit b.service": "disabled inactive", "unit c.service": "absent",
    }  # fmt: skip
    services.units = dict.fromkeys(("b.service", "c.service"), ("enabled", "active"))
    services.units["a.service"] = ("disabled", "inactive")
    now = {"live": live.look(services.run, former)}
    assert live.differing({"live": former}, now) == list(former)
    for name, wanted in former.items():
        live.let_go(services.run, name, wanted)
    assert [live.put_back(services.run, name, wanted) for name, wanted in former.items()] == [None, None, None]
    assert services.units == {
        "a.service": ("enabled", "active"), "b.service": ("disabled", "inactive"), "c.service": ("disabled", "inactive"),
    }  # fmt: skip


def test_a_unit_that_does_not_start_again_is_named(live: ModuleType) -> None:
    def refuse(argv: list[str]) -> tuple[int, str, str]:
        if argv[1] == "show":
            return 0, "LoadState=loaded\nUnitFileState=enabled\nActiveState=failed\n", ""
        return 1, "", "Job for a.service failed"

    assert "is enabled inactive" in live.put_back(refuse, "unit a.service", "enabled active")


def test_an_account_that_the_run_made_is_removed_and_a_lost_one_is_named(live: ModuleType) -> None:
    services = Services()
    assert live.look(services.run, live.names([], ["root", "nobody-of-this-name"])) == {
        "user root": "present", "user nobody-of-this-name": "absent",
    }  # fmt: skip
    assert live.put_back(services.run, "user nobody-of-this-name", "absent") is None
    assert "cannot be made again" in live.put_back(services.run, "user nobody-of-this-name", "present")


def test_a_record_of_an_older_pdctl_knows_no_units(live: ModuleType) -> None:
    assert live.differing({"paths": {}}, {"live": {}}) == []


def test_a_pattern_of_paths_stands_for_the_files_that_are_there(state: ModuleType, tmp_path: Path) -> None:
    for name in ("b.conf", "a.conf", "c.txt"):
        (tmp_path / name).touch()
    paths, _keys = state.expanded([str(tmp_path / "a.conf"), str(tmp_path / "*.conf")], [])
    assert paths == [str(tmp_path / "a.conf"), str(tmp_path / "b.conf")]


def test_a_run_that_goes_on_keeps_what_was_there_before_its_first_try(node: Node) -> None:
    former, copy = node.look(), node.begin()["copy"]
    node.file.write_bytes(b"half of it\n")
    again = node.begin()["copy"]
    assert (again["paths"], again["contents"]) == (copy["paths"], copy["contents"])
    node.change()
    node.end()
    assert node.back()["problems"] == []
    assert node.look() == former


def test_a_run_that_goes_on_after_it_had_changed_nothing_can_change_something(node: Node, state: ModuleType) -> None:
    node.begin()
    node.end()
    former = node.look()
    node.begin()
    node.change()
    node.end()
    assert not (state.KEPT / RUN / "unchanged.json").exists()
    assert node.back()["changed"] is True
    assert node.look() == former


def test_a_rollback_that_goes_on_keeps_what_was_there_before_its_first_try(node: Node, state: ModuleType) -> None:
    former, _copy = _changed(node)
    changed = node.look()
    node.back()
    (state.KEPT / BACK / "after.json").unlink()
    node.new.write_bytes(b"new\n")
    node.new.chmod(0o644)
    assert node.back()["problems"] == []
    assert node.look() == former
    node.back(run=BACK, own=AGAIN)
    assert node.look() == changed


BASIS = {"salt": "s", "digest": "d"}


def _drift() -> dict[str, Any]:
    return dict(importlib.import_module("ansible.module_utils.pdctl_drift").drift())


def test_a_node_that_converged_says_what_it_stands_on_until_something_moves(node: Node, state: ModuleType) -> None:
    node.begin()
    node.change()
    assert node.end(basis=BASIS)["copy"]["converged"]["basis"] == "d"
    word = _drift()
    assert (word["run"], word["basis"], word["digest"] == word["now"]) == (RUN, "d", True)
    for moves in (
        lambda: node.new.chmod(0o640),
        lambda: node.keys["one"].write_text("9\n", encoding="utf-8"),
        # An interface that came since.
        lambda: (node.folder / "proc" / "net" / "three").write_text("1\n", encoding="utf-8"),
    ):
        before = _drift()["now"]
        moves()
        assert _drift()["now"] != before


def test_an_interface_that_somebody_set_otherwise_has_drifted(
    node: Node, state: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rails = importlib.import_module("ansible.module_utils.pdctl_rails")
    monkeypatch.setattr(rails, "SYS_NET", node.folder / "net")
    mtu = node.folder / "net" / "rail0" / "mtu"
    mtu.parent.mkdir(parents=True)
    mtu.write_text("9000\n", encoding="utf-8")
    node.begin(fabric=[{"area": "mtu", "rails": ["rail0"]}])
    node.end(basis=BASIS)
    word = _drift()
    assert word["now"] == word["digest"]
    mtu.write_text("1500\n", encoding="utf-8")
    assert _drift()["now"] != word["digest"]


def test_a_node_that_refused_something_or_is_being_changed_has_not_converged(node: Node, state: ModuleType) -> None:
    node.begin()
    node.end(basis=BASIS, refused=True)
    assert _drift() == {}
    node.begin(BACK)
    node.end(BACK, basis=BASIS)
    node.begin(AGAIN)
    assert _drift() == {}


def test_what_is_sent_to_a_node_says_the_same_there(node: Node, state: ModuleType) -> None:
    node.begin()
    node.end(basis=BASIS)
    values = {"KEPT": state.KEPT, "PROC": state.PROC, "CONVERGED": state.CONVERGED}
    place = "\n".join(
        f"sys.modules[place + '.pdctl_state'].{key} = __import__('pathlib').Path({str(path)!r})"
        for key, path in values.items()
    )
    script = look_script().replace("\nprint(", f"\n{place}\nprint(").replace("python3 ", f"{sys.executable} ", 1)
    said = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(said.stdout.removeprefix("pdctl-drift ")) == _drift()


def test_what_an_active_engine_would_feel_stays_as_it_is_until_it_may(node: Node) -> None:
    former, _copy = _changed(node)
    changed = node.look()
    for check in (True, False):
        problems = node.back(held=["restart-engine"], check=check)["problems"]
        assert {problem["key"] for problem in problems} >= {str(node.file), str(node.new), str(node.link)}
        assert all("--while-serving" in problem["message"] for problem in problems)
    assert {**node.look(), "two": changed["two"]} == changed
    assert node.back(own=AGAIN)["problems"] == []
    assert node.look() == former


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_a_folder_or_a_pipe_where_a_role_keeps_a_file_is_refused_before_anything_is_changed(
    tmp_path: Path, call: Call, check: bool
) -> None:
    node = Node(tmp_path, call)
    folder, drop_ins, pipe = (tmp_path / "etc" / name for name in ("90-pdctl.conf", "system.conf.d", "pipe"))
    folder.mkdir()
    drop_ins.mkdir()
    os.mkfifo(pipe)
    assert "failed" not in node.begin(also=[drop_ins], check=True)
    assert f"{folder} is a folder, and a role keeps a file there" in node.begin(also=[folder], check=check)["msg"]
    assert f"{pipe} is neither a file nor a folder" in node.begin(also=[pipe], check=check)["msg"]


def test_a_state_folder_that_others_may_write_in_keeps_no_way_back(
    tmp_path: Path, call: Call, state: ModuleType
) -> None:
    node = Node(tmp_path, call)
    state.KEPT.parent.chmod(0o777)
    refused = node.begin()
    assert refused["failed"] and "may be written by others than root" in refused["msg"]
    state.KEPT.parent.chmod(0o755)
    assert "failed" not in node.begin()
