"""Evidence comes from files, folders, archives and stdin; nothing outside them is read."""

import io
import tarfile
from pathlib import Path

import pytest

from pdctl import evidence_source
from pdctl.errors import UsageError
from pdctl.evidence_source import read_sources

BLOCK = "=== cmd: uname -r\n=== rc: 0\n6.1.0\n=== end\n"


def test_a_file_is_one_node_named_after_it(tmp_path: Path) -> None:
    (tmp_path / "decode-1.txt").write_text(f"# a comment\nprose\n{BLOCK}", encoding="utf-8")
    (evidence,) = read_sources([str(tmp_path / "decode-1.txt")]).evidence
    assert (evidence.node, [block.output for block in evidence.blocks]) == ("decode-1", ["6.1.0"])


def test_a_command_may_name_its_node(tmp_path: Path) -> None:
    text = BLOCK.replace("uname", "n1: uname") + BLOCK.replace("uname", "n2: uname")
    (tmp_path / "both.txt").write_text(text, encoding="utf-8")
    assert [evidence.node for evidence in read_sources([str(tmp_path / "both.txt")]).evidence] == ["n1", "n2"]


def test_files_of_a_folder_belong_to_the_node_that_it_is_named_after(tmp_path: Path) -> None:
    for name in ("n1/a.txt", "n1/b.txt", "n2.txt"):
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BLOCK, encoding="utf-8")
    (tmp_path / "bundle" / "README").write_text("no block", encoding="utf-8")
    source = read_sources([str(tmp_path / "bundle")])
    assert {evidence.node: len(evidence.blocks) for evidence in source.evidence} == {"n1": 2, "n2": 1}
    assert [Path(name).name for name in source.skipped] == ["README"]


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(BLOCK.replace("6.1.0", "secret"), encoding="utf-8")
    path = tmp_path / "bundle.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        good = tarfile.TarInfo("n1/kernel.txt")
        good.size = len(BLOCK)
        archive.addfile(good, io.BytesIO(BLOCK.encode()))
        link = tarfile.TarInfo("n1/link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
    (evidence,) = read_sources([str(path)]).evidence
    assert [block.output for block in evidence.blocks] == ["6.1.0"]


def test_an_archive_that_claims_more_than_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_source, "MAX_TOTAL_BYTES", 10)
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("n1.txt")
        entry.size = len(BLOCK)
        archive.addfile(entry, io.BytesIO(BLOCK.encode()))
    with pytest.raises(UsageError, match="too large"):
        read_sources([str(path)])


@pytest.mark.parametrize("text", ["", "prose only\n", "==== cmd: uname\n"])
def test_a_file_without_blocks_is_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.txt").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="no evidence"):
        read_sources([str(tmp_path / "notes.txt")])


def test_a_missing_file_and_a_cut_archive_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_sources([str(tmp_path / "none.txt")])
    path = tmp_path / "cut.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("n1.txt")
        entry.size = 200_000
        archive.addfile(entry, io.BytesIO(bytes(range(256)) * 782))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UsageError):
        read_sources([str(path)])


def test_bytes_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    (tmp_path / "n1.txt").write_bytes(b"=== cmd: cat repo\n=== rc: 0\nname=caf\xe9\n=== end\n")
    (evidence,) = read_sources([str(tmp_path / "n1.txt")]).evidence
    assert evidence.blocks[0].output.encode("utf-8", "surrogateescape") == b"name=caf\xe9"
