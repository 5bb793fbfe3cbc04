"""Role hugepages: the kernel takes any number; what it gave is what counts."""

from pathlib import Path

import pytest
from tests.unit.provision.node_module import node_module

pages = node_module("hugepages", "pdctl_hugepages")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nr_hugepages"
    path.write_text("8\n")
    monkeypatch.setattr(pages, "PATH", path)
    return path


def test_a_check_predicts_and_writes_nothing(kernel: Path) -> None:
    assert pages.bring(16, True)["outcome"] == "changed"
    assert kernel.read_text(encoding="utf-8") == "8\n"


def test_the_number_that_is_there_is_kept(kernel: Path) -> None:
    assert pages.bring(8, False) == {"key": "vm.nr_hugepages", "wanted": 8, "before": 8, "live": 8, "outcome": "kept"}


@pytest.mark.parametrize(("asked", "given", "words"), [(1000, 12, "whole memory"), (0, 3, "in use")])
def test_fewer_or_more_than_asked_is_refused_with_the_live_value(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, asked: int, given: int, words: str
) -> None:
    monkeypatch.setattr(pages, "write", lambda _asked: kernel.write_text(f"{given}\n", encoding="utf-8"))
    record = pages.bring(asked, False)
    assert (record["outcome"], record["live"]) == ("refused", given)
    assert words in record["message"]


def test_a_kernel_without_huge_pages_has_no_such_key(kernel: Path) -> None:
    kernel.unlink()
    assert (pages.bring(1, False)["outcome"], pages.bring(1, True)["errno_name"]) == ("absent", "ENOENT")
