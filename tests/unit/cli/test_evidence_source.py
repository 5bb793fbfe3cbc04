"""Evidence comes from files, folders, archives and stdin; nothing outside them is read."""

import gzip
import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from pdctl import evidence_files
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
    assert [(Path(each.source).name, each.line, each.text) for each in source.unrecognised] == [
        ("README", 1, "no block")
    ]


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
    source = read_sources([str(path)])
    (evidence,) = source.evidence
    assert [block.output for block in evidence.blocks] == ["6.1.0"]
    assert [each.text for each in source.unrecognised] == ["a link or device, not followed"]


def test_an_archive_that_claims_more_than_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_files, "MAX_TOTAL_BYTES", 10)
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("n1.txt")
        entry.size = len(BLOCK)
        archive.addfile(entry, io.BytesIO(BLOCK.encode()))
    with pytest.raises(UsageError, match="too large"):
        read_sources([str(path)])


@pytest.mark.parametrize("text", ["", "\n\n", "\0" * 100])
def test_a_file_without_text_is_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.txt").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="no evidence"):
        read_sources([str(tmp_path / "notes.txt")])


@pytest.mark.parametrize("text", ["prose only\n", "==== cmd: uname\n"])
def test_text_that_nobody_knows_is_listed_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.txt").write_text("\n" + text, encoding="utf-8")
    source = read_sources([str(tmp_path / "notes.txt")])
    assert source.evidence == ()
    (left,) = source.unrecognised
    assert (left.source, left.line, left.text, left.lines) == (str(tmp_path / "notes.txt"), 2, text.strip(), 1)


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


def _bundle(path: Path, *entries: tarfile.TarInfo, tail: bytes = b"") -> Path:
    """Headers only, as a hostile archive has them: what they announce may not be there."""
    data = b"".join(entry.tobuf(tarfile.GNU_FORMAT) for entry in entries) + tail
    path.write_bytes(gzip.compress(data))
    return path


def _announcing(kind: bytes, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo("n1.txt")
    entry.type, entry.size = kind, size
    return entry


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (tarfile.XHDTYPE, 300 << 20),
        (tarfile.XGLTYPE, 300 << 20),
        (tarfile.GNUTYPE_LONGNAME, 300 << 20),
        (b"Z", 8 << 30),
    ],
)
def test_a_small_archive_that_unfolds_without_end_is_refused_at_once(tmp_path: Path, kind: bytes, size: int) -> None:
    path = _bundle(tmp_path / "bomb.tar.gz", _announcing(kind, size), tail=bytes(1 << 20))
    began = time.monotonic()
    with pytest.raises(UsageError, match="too large"):
        read_sources([str(path)])
    assert time.monotonic() - began < 5


def test_a_chain_of_headers_that_never_reaches_a_file_is_refused(tmp_path: Path) -> None:
    chain = [_announcing(tarfile.XGLTYPE, 0)] * 5000
    with pytest.raises(UsageError, match=r"too large|cannot read"):
        read_sources([str(_bundle(tmp_path / "chain.tar.gz", *chain))])


def test_members_that_are_no_files_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_files, "MAX_PASSED_FILES", 10)
    with pytest.raises(UsageError, match="too large"):
        read_sources([str(_bundle(tmp_path / "dirs.tar.gz", *[_announcing(tarfile.DIRTYPE, 0)] * 11))])


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_many_chunks_are_read_whole(tmp_path: Path, mode: str, layout: int) -> None:
    path = tmp_path / "bundle.tar"
    text = ("# padding\n" * 100_000 + BLOCK).encode()
    with tarfile.open(path, mode, format=layout) as archive:  # type: ignore[call-overload]
        for name in ("n1/" + "long-" * 60 + ".txt", "n2/节点.txt"):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    assert [evidence.node for evidence in read_sources([str(path)]).evidence] == ["n1", "n2"]


def test_devices_and_fifos_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/zero", str(tmp_path / "pipe")):
        with pytest.raises(UsageError, match="neither a file nor a folder"):
            read_sources([name])


def test_a_file_of_zeros_is_no_archive_and_too_large_ones_are_not_read(tmp_path: Path) -> None:
    for size, why in ((1 << 20, "no evidence"), (100 << 20, "larger than")):
        with (tmp_path / "zeros").open("wb") as stream:
            stream.truncate(size)
        began = time.monotonic()
        with pytest.raises(UsageError, match=why):
            read_sources([str(tmp_path / "zeros")])
        assert time.monotonic() - began < 5


def test_the_shell_lines_of_the_documentation_write_evidence(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "evidence.md").read_text(encoding="utf-8")
    lines = page.partition("## Writing it by hand")[2].partition("```sh\n")[2].partition("```")[0]
    subprocess.run(["sh", "-c", lines], cwd=tmp_path, check=True, timeout=60)
    (evidence,) = read_sources([str(tmp_path / "node-7.txt")]).evidence
    assert (evidence.node, len(evidence.blocks)) == ("node-7", 6)
    limits = evidence.blocks[0]
    assert (limits.command, limits.rc) == ("cat /proc/self/limits", 0) and "Max locked memory" in limits.output


def test_the_file_of_the_documentation_is_evidence(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "evidence.md").read_text(encoding="utf-8")
    shown = page.partition("## A file of it")[2].partition("```\n")[2].partition("```")[0]
    (tmp_path / "node-7.txt").write_text(shown, encoding="utf-8")
    (evidence,) = read_sources([str(tmp_path / "node-7.txt")]).evidence
    assert [(block.command, block.rc) for block in evidence.blocks] == [("ibstat", 0), ("cat /proc/self/limits", 0)]


COLLECTED = "=== cmd: pdctl-collect begin\n=== rc: 0\nversion 1\n=== end\n" + BLOCK


def test_a_collection_without_its_end_is_named_as_not_whole(tmp_path: Path) -> None:
    (tmp_path / "n1.txt").write_text(COLLECTED, encoding="utf-8")
    (incomplete,) = read_sources([str(tmp_path / "n1.txt")]).incomplete
    assert (incomplete.node, incomplete.reason) == ("n1", "its evidence stops before the collector's end")


@pytest.mark.parametrize("text", [BLOCK, BLOCK.removesuffix("=== end\n"), f"{COLLECTED}=== cmd: pdctl-collect end\n"])
def test_what_a_person_wrote_and_a_whole_collection_miss_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "n1.txt").write_text(text, encoding="utf-8")
    assert read_sources([str(tmp_path / "n1.txt")]).incomplete == []


IBSTAT = "[root@n7 ~]# ibstat\nCA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tLink layer: Ethernet\n"


@pytest.mark.parametrize("text", [BLOCK.replace("uname", "n7: uname"), IBSTAT])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_windows_wrote_is_read(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "x.txt").write_bytes(text.replace("\n", "\r\n").encode(encoding))
    source = read_sources([str(tmp_path / "x.txt")])
    assert [evidence.node for evidence in source.evidence] == ["n7"]
    assert source.unrecognised == []


@pytest.mark.parametrize("text", [BLOCK.replace("uname", "n7: uname"), IBSTAT])
@pytest.mark.parametrize("margin", ["> ", "> > ", ">> ", "    ", "\t"])
def test_what_a_mail_or_a_ticket_put_before_each_line_is_no_part_of_it(tmp_path: Path, text: str, margin: str) -> None:
    (tmp_path / "x.txt").write_text("".join(f"{margin}{line}\n" for line in text.splitlines()), encoding="utf-8")
    (tmp_path / "y.txt").write_text(text, encoding="utf-8")
    (moved,), (whole,) = (read_sources([str(tmp_path / name)]).evidence for name in ("x.txt", "y.txt"))
    assert moved == whole
    assert moved.node == "n7"


def test_an_output_that_is_indented_by_itself_stays_as_it_is(tmp_path: Path) -> None:
    text = "     rx_prio3_packets: 9\n     rx_prio3_pause: 9\n"
    (tmp_path / "x.txt").write_text(text, encoding="utf-8")
    (evidence,) = read_sources([str(tmp_path / "x.txt")]).evidence
    assert evidence.blocks[0].output == text.rstrip("\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\3\4" + bytes(60), "a zip archive: unpack it"),
        (bytes(60) + b"x", "it holds zero bytes"),
        (b"\n", "empty"),
    ],
)
def test_why_nothing_was_read_is_said(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_sources([str(tmp_path / "x")])
    assert says in str(error.value.detail)


def test_a_compressed_text_says_how_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "n1.txt.gz").write_bytes(gzip.compress(BLOCK.encode() * 20))
    with pytest.raises(UsageError) as error:
        read_sources([str(tmp_path / "n1.txt.gz")])
    assert "zcat" in str(error.value.hint)
