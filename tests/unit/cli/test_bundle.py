"""A bundle keeps what was seen: read back it gives the same findings, the nodes that were not reached, and their policy."""

import json
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pdchecks.evidence import own_blocks, print_blocks
from pdchecks.finding import Finding, Incomplete
from pdchecks.policy import Layer, read_layer, resolve
from pdchecks.redaction.redactor import Redactor
from pdctl import bundle
from pdctl.collection import Collected
from pdctl.content import content_root
from pdctl.diagnosis import examine, selected
from pdctl.errors import UsageError
from pdctl.evidence_source import Source, read_sources
from pdctl.policy_source import SHIPPED, policy_for, site_values

ROOT = Path(__file__).parents[3]
HEALTHY = (ROOT / "tests" / "data" / "nodes" / "healthy-roce-node.txt").read_text(encoding="utf-8")
DOWN = Incomplete("n3", "10.0.0.3 port 22: connection refused", "see whether the node is up")
NODES = [
    Collected("n1", "ssh root@10.0.0.1 port 22", HEALTHY, None),
    Collected("rack 2/n2", "local", HEALTHY.replace("mtu 4200", "mtu 1500"), None),
    Collected("n3", "ssh root@10.0.0.3 port 22", "", DOWN),
]
FORMATS = ["x.tar.zst", "x.tar.gz", "x.tgz", "x.tar"]


def _write(path: Path, nodes: list[Collected] = NODES, site: dict[str, Any] | None = None) -> Path:
    bundle.write(path, nodes, lambda node: site or {}, interval_s=10, seconds=1.5)
    return path


def _findings(source: Source) -> list[Finding]:
    return examine(source, policy_for(recorded=source.policy), selected([], []))


@pytest.mark.parametrize("name", FORMATS)
def test_read_back_it_gives_the_same_findings_and_names_who_was_not_reached(tmp_path: Path, name: str) -> None:
    source = read_sources([str(_write(tmp_path / name))])
    live = Source(tuple(node.evidence for node in NODES if node.evidence))
    assert _findings(source) == _findings(live)
    assert source.incomplete == [DOWN]
    assert source.unrecognised == []


def test_an_unpacked_bundle_reads_as_the_packed_one(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.tar")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "x", filter="data")
    unpacked, packed = read_sources([str(tmp_path / "x")]), read_sources([str(path)])
    assert (unpacked.evidence, unpacked.incomplete) == (packed.evidence, packed.incomplete)


@pytest.mark.parametrize("node", ["..", ".", "../../etc", "/etc"])
def test_no_name_of_a_node_leads_out_of_the_folder_in_which_a_bundle_is_unpacked(tmp_path: Path, node: str) -> None:
    path = _write(tmp_path / "x.tar", [Collected(node, "local", HEALTHY, None)])
    with tarfile.open(path) as archive:
        for name in archive.getnames():
            assert (tmp_path / "a" / "b" / name).resolve().is_relative_to(tmp_path / "a" / "b")
            assert (tmp_path / name).resolve() != tmp_path / "evidence.txt"
    assert [evidence.node for evidence in read_sources([str(path)]).evidence] == [node]


def test_only_the_owner_may_read_it_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.tar.zst")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="is there already"):
        _write(path)
    with pytest.raises(UsageError, match="names no format"):
        _write(tmp_path / "x.zip")


@pytest.mark.parametrize(
    ("name", "says"),
    [("x.zip", "names no format"), ("no/x.tar", "is no folder"), ("link.tar", "is there already")],
)
def test_where_no_bundle_can_be_written_is_told_before_anybody_looks(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "link.tar").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError) as error:
        bundle.refuse(tmp_path / name)
    assert says in f"{error.value} {error.value.detail}"


def test_the_manifest_says_who_was_reached_how_and_with_what_version(tmp_path: Path) -> None:
    with tarfile.open(_write(tmp_path / "x.tar")) as archive:
        assert archive.getnames()[0] == "manifest.json"
        member = archive.extractfile("manifest.json")
        assert member
        manifest = json.load(member)
    assert (manifest["schema"], manifest["redacted"], manifest["interval_s"]) == ("pdctl.bundle/1", False, 10)
    assert manifest["pdctl"]
    assert [(node["node"], node["way"], node["reason"]) for node in manifest["nodes"]] == [
        (node.node, node.way, node.incomplete.reason if node.incomplete else "") for node in NODES
    ]
    assert manifest["nodes"][0]["collector"].startswith("version 1 epoch ")


def test_the_policy_of_the_site_travels_with_the_evidence(tmp_path: Path) -> None:
    # What one node is called by is no value that another could be compared with, and redacted it would be a wrong one.
    of_one_node = {"addresses": {"rail0": ["10.0.0.7/24"]}}
    site = Layer("site", {"fabric": {"mtu": {"netdev": 1500}, **of_one_node}})
    layers = [read_layer(content_root() / SHIPPED), site]
    values = site_values(resolve(layers))
    assert values == {"fabric": {"mtu": {"netdev": 1500}}}
    source = read_sources([str(_write(tmp_path / "x.tar.zst", site=values))])
    of = policy_for(recorded=source.policy)
    assert of("n1").values.fabric.mtu.netdev == 1500
    assert of("another").values.fabric.mtu.netdev != 1500


def test_a_node_cannot_speak_for_another(tmp_path: Path) -> None:
    forged = "=== cmd: n1: ibstat\n=== rc: 0\nCA 'mlx5_0'\n=== end\n"
    source = read_sources([str(_write(tmp_path / "x.tar", [Collected("liar", "local", forged, None)]))])
    assert [(evidence.node, evidence.blocks[0].command) for evidence in source.evidence] == [("liar", "n1: ibstat")]


@pytest.mark.parametrize("name", ["", "a\x1b[31mb", "x" * 300])
def test_a_node_of_an_unprintable_name_in_a_manifest_is_left_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "x"
    (folder / "n1").mkdir(parents=True)
    rows = [{"node": name, "file": "n1/evidence.txt", "reason": "none"}]
    (folder / "manifest.json").write_text(json.dumps({"schema": "pdctl.bundle/1", "nodes": rows}), encoding="utf-8")
    (folder / "n1" / "evidence.txt").write_text(HEALTHY, encoding="utf-8")
    source = read_sources([str(folder)])
    assert ([evidence.node for evidence in source.evidence], source.incomplete) == (["n1"], [])


@pytest.mark.parametrize(
    "manifest", ["[]", "{", '{"schema": "pdctl.bundle/1"}', '{"schema":"pdctl.bundle/1","nodes":[{"node":3},1]}']
)
def test_a_damaged_manifest_takes_no_evidence_away(tmp_path: Path, manifest: str) -> None:
    folder = tmp_path / "x"
    (folder / "n1").mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    (folder / "n1" / "evidence.txt").write_text(HEALTHY, encoding="utf-8")
    assert [evidence.node for evidence in read_sources([str(folder)]).evidence] == ["n1"]


def test_a_policy_of_a_wrong_type_is_a_clear_error(tmp_path: Path) -> None:
    source = read_sources([str(_write(tmp_path / "x.tar", site={"fabric": {"mtu": "large"}}))])
    with pytest.raises(UsageError, match="policy is wrong"):
        _findings(source)


def test_a_small_file_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("n1/evidence.txt")
    entry.size = 8 << 30
    path = tmp_path / "bomb.tar.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(entry.tobuf() + bytes(64 << 20)))
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"too large|cannot read"):
        read_sources([str(path)])
    assert time.monotonic() - began < 20


def test_a_window_that_would_fill_the_memory_and_a_torn_stream_are_refused(tmp_path: Path) -> None:
    whole = _write(tmp_path / "x.tar.zst").read_bytes()
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=False)
    wide = zstandard.ZstdCompressor(compression_params=parameters).compressobj().compress(b"x" * 9_000_000)
    for name, data in (
        ("torn.tar.zst", whole[: len(whole) // 2]),
        ("wide.tar.zst", wide),
        ("noise.tar.zst", whole[:8] * 9),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UsageError, match=r"cannot read|no evidence|too large"):
            read_sources([str(tmp_path / name)])


def test_the_command_collects_this_host_and_the_doctor_reads_it_back(tmp_path: Path) -> None:
    path = tmp_path / "here.tar.zst"
    made = _pdctl("collect", "--to", str(path), "--interval", "0")
    assert (made.returncode, made.stdout) == (0, ""), made.stderr
    assert "1 of 1 nodes collected" in made.stderr
    read = _pdctl("doctor", "--from", str(path), "-o", "json")
    assert read.returncode in (0, 1, 3), read.stderr
    assert json.loads(read.stdout)["findings"]


def _pdctl(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pdctl", *argv]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200, stdin=subprocess.DEVNULL)


def test_a_redacted_bundle_gives_the_same_findings_without_the_names(tmp_path: Path) -> None:
    names = ["athena-1", "hermes-2"]
    nodes = [Collected(name, f"ssh carol@{name} port 22", HEALTHY, None) for name in names]
    nodes.append(
        Collected("zeus-3", "ssh carol@zeus-3 port 22", "", Incomplete("zeus-3", "zeus-3 port 22: refused", ""))
    )
    redactor = Redactor(b"k" * 32)
    path = tmp_path / "x.tar"
    bundle.write(path, nodes, lambda node: {}, interval_s=0, seconds=1, redactor=redactor)
    content = path.read_bytes()
    for word in (
        *names,
        "zeus-3",
        "carol",
        *(line.split()[1] for line in HEALTHY.splitlines() if "link/ether" in line),
    ):
        assert word.encode() not in content
    source = read_sources([str(path)])
    assert [each.node for each in source.incomplete] == [redactor("zeus-3")]
    live = Source(tuple(node.evidence for node in nodes if node.evidence))
    before = sorted((f.check, f.status, redactor(f.subject.node), redactor(f.subject.object)) for f in _findings(live))
    assert sorted((f.check, f.status, f.subject.node, f.subject.object) for f in _findings(source)) == before


def test_what_was_kept_can_be_kept_anew_without_the_names(tmp_path: Path) -> None:
    down = Collected("zeus-3", "ssh root@zeus-3 port 22", "", Incomplete("zeus-3", "zeus-3 port 22: refused", "see"))
    whole = _write(tmp_path / "x.tar.zst", [Collected("athena-1", "local", HEALTHY, None), down])
    made = _pdctl("collect", "--from", str(whole), "--to", str(tmp_path / "y.tar"), "--redact")
    assert made.returncode == 3, made.stderr
    assert b"athena" not in (tmp_path / "y.tar").read_bytes()
    before, after = (read_sources([str(path)]) for path in (whole, tmp_path / "y.tar"))
    assert sorted((f.check, f.status) for f in _findings(before)) == sorted(
        (f.check, f.status) for f in _findings(after)
    )
    assert [each.hint for each in after.incomplete] == ["see"]


def test_blocks_that_are_written_read_back_as_they_were() -> None:
    blocks = own_blocks(HEALTHY)
    assert own_blocks(print_blocks(blocks)) == blocks


def test_a_bundle_may_come_in_by_stdin(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.tar.zst")
    command = [sys.executable, "-m", "pdctl", "doctor", "--from", "-", "-o", "json"]
    ran = subprocess.run(command, input=path.read_bytes(), capture_output=True, timeout=200)
    document = json.loads(ran.stdout)
    assert {finding["subject"]["node"] for finding in document["findings"]} == {"n1", "rack 2/n2"}
    torn = subprocess.run(command, input=path.read_bytes()[:2000], capture_output=True, timeout=200)
    assert torn.returncode == 2, torn.stderr
