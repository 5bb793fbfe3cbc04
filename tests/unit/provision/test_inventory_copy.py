import os
from pathlib import Path

import pytest

from pdctl.provisioning import inventory_copy
from pdctl.provisioning.inventory_copy import copy_regular
from pdctl.provisioning.record import RunRecord


def test_whatever_lies_beside_an_inventory_the_record_keeps_the_files_and_names_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site = tmp_path / "site"
    variables = site / "group_vars"
    (variables / "all").mkdir(parents=True)
    (site / "hosts.ini").write_text("[prefill]\nn1\n", encoding="utf-8")
    (variables / "all" / "main.yml").write_text("a: 1\n", encoding="utf-8")
    (variables / "same.yml").symlink_to("all/main.yml")
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    (variables / "up").symlink_to("..")
    (variables / "gone").symlink_to("nowhere")
    (variables / "me").symlink_to("me")
    (variables / "out").symlink_to(tmp_path / "outside")
    os.mkfifo(variables / "pipe")
    record = RunRecord("provision", {}, {})
    record.keep_inventory(site / "hosts.ini")
    record.close(0, {})
    kept = record.folder / "inventory"
    files = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
    assert files == {"hosts.ini", "group_vars/all/main.yml", "group_vars/same.yml", "NOT-COPIED.txt"}
    note = (kept / "NOT-COPIED.txt").read_text(encoding="utf-8")
    assert all(f"group_vars/{name}: " in note for name in ("up", "gone", "me", "out", "pipe"))
    assert len(note.splitlines()) == 5


def test_an_inventory_folder_is_kept_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "site" / "host_vars").mkdir(parents=True)
    (tmp_path / "site" / "host_vars" / "n1.yml").write_text("a: 1\n", encoding="utf-8")
    record = RunRecord("provision", {}, {})
    record.keep_inventory(tmp_path / "site")
    record.close(0, {})
    assert (record.folder / "inventory" / "site" / "host_vars" / "n1.yml").read_text(encoding="utf-8") == "a: 1\n"


def test_a_copy_stops_at_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_copy, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(inventory_copy, "MAX_FILES", 3)
    source = tmp_path / "vars"
    source.mkdir()
    for name, size in (("a", 11), ("b", 10), ("c", 1), ("d", 1), ("e", 1)):
        (source / name).write_bytes(b"x" * size)
    left_out = copy_regular([source], tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy" / "vars").iterdir()} == {"b", "c"}
    assert len(left_out) == 2 and "larger" in left_out[0] and "more than 3 files" in left_out[1]
