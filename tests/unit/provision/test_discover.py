"""`pdctl inventory discover` writes what nodes are made of beside the inventory, and never over what is declared."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdchecks.evidence import Block, Evidence, read_blocks
from pdchecks.hardware import Hardware, RdmaNic, hardware
from pdchecks.nodefacts import gather
from pdchecks.unknown import Unknown
from pdctl.discovering import Discovery, compare_kinds, compared, exit_code, judged
from pdctl.host_vars import NotWritable, edit, write
from pdctl.inventory import Host, load_inventory
from pdctl.policy_source import policy_for

HEALTHY = Path(__file__).parents[2] / "data" / "nodes" / "healthy-roce-node.txt"
FIRMWARE = policy_for()("n").values.firmware
SMI = "nvidia-smi --query-gpu=index,uuid,name --format=csv"
END = Block("pdctl-collect end", 0, "")
BEGIN = Block("pdctl-collect begin", 0, "version 1 epoch 1796000000 uid 0 privilege root")
NIC = {"device": "mlx5_0", "port": 1, "netdev": "ens2f0np0", "card": "connectx-7", "rate_gbps": 400}


def _gpus(*names: str) -> Block:
    rows = [f"{index}, GPU-{index}, {name}" for index, name in enumerate(names)]
    return Block(SMI, 0, "\n".join(["index, uuid, name", *rows]))


def _hardware(*blocks: Block) -> Hardware:
    return hardware(gather(Evidence("n", (BEGIN, *blocks, END))), FIRMWARE)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("NVIDIA H100 80GB HBM3",) * 8, "h100-sxm"),
        (("NVIDIA A100-SXM4-40GB",), "a100-sxm-40"),
        (("Orin (nvgpu)",), "orin"),
        (("NVIDIA H100 PCIe", "NVIDIA L4"), "it has GPUs of several kinds: NVIDIA H100 PCIe, NVIDIA L4"),
        (("NVIDIA Rubin",), "no GPU of the kind 'NVIDIA Rubin' in the table"),
    ],
)
def test_the_kind_is_of_the_table_or_unknown_with_the_reason(names: tuple[str, ...], kind: str) -> None:
    found = _hardware(_gpus(*names))
    said = found.gpu_kind.reason if isinstance(found.gpu_kind, Unknown) else found.gpu_kind
    assert said.startswith(kind) and found.gpu_count == len(names)


def test_a_node_without_a_gpu_is_a_cpu_and_a_silent_driver_is_not() -> None:
    assert _hardware().gpu_kind == "cpu"
    present = Block(
        "grep -H '' /sys/bus/pci/devices/0000:c1:00.0/vendor", 0, "/sys/bus/pci/devices/0000:c1:00.0/vendor:0x10de"
    )
    broken = Block("nvidia-smi -L", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    for block, why in ((present, "on the PCI bus (1)"), (broken, "NVIDIA-SMI has failed")):
        kind = _hardware(block).gpu_kind
        assert isinstance(kind, Unknown) and why in kind.reason
    cut = hardware(gather(Evidence("n", (BEGIN,))), FIRMWARE).gpu_kind
    assert isinstance(cut, Unknown)


def test_rdma_ports_have_interface_card_and_rate() -> None:
    blocks = read_blocks(HEALTHY.read_text(encoding="utf-8"))
    found = hardware(gather(Evidence("n", tuple(blocks))), FIRMWARE)
    assert found.nics == (RdmaNic("mlx5_0", 1, "ens2f0np0", "connectx-7", 400.0),)


def _host(**variables: Any) -> Host:
    return Host("p1", "10.0.0.1", 22, None, None, "ssh", variables, ("prefill",))


H100 = Hardware("h100-sxm", "NVIDIA H100 80GB HBM3", 8, (RdmaNic("mlx5_0", 1, "ens2f0np0", "connectx-7", 400.0),))


def _judged(folder: Path, variables: Mapping[str, Any], there: Hardware = H100) -> Discovery:
    return judged(_host(**variables), there, {"gpu_kind": "group prefill"}, folder)


def test_what_is_not_declared_is_added_and_reads_back(tmp_path: Path) -> None:
    found = _judged(tmp_path, {})
    assert found.edit is not None and found.edit.path == tmp_path / "host_vars" / "p1.yml"
    write([found.edit])
    (tmp_path / "hosts.ini").write_text("[prefill]\np1\n", encoding="utf-8")
    (host,) = load_inventory(tmp_path / "hosts.ini")
    wanted = {"gpu_kind": "h100-sxm", "gpu_count": 8, "rdma_ports": [NIC]}
    assert {name: host.variables[name] for name in wanted} == wanted
    again = judged(host, H100, {}, tmp_path)
    assert (again.edit, again.failures) == (None, ())


def test_a_declared_family_agrees_with_its_board_and_stays(tmp_path: Path) -> None:
    found = _judged(tmp_path, {"gpu_kind": "H100"})
    assert found.failures == () and found.edit is not None
    assert "gpu_kind" not in found.edit.after and "gpu_count: 8" in found.edit.after


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"gpu_kind": "a100"},
            "`gpu_kind` of `p1` is declared `a100` by group prefill, and the node has `h100-sxm` (NVIDIA H100 80GB HBM3)",
        ),
        ({"gpu_kind": "h100-pcie"}, "declared `h100-pcie`"),
        ({"gpu_count": 4}, "`gpu_count` of `p1` is declared `4`, and the node has `8`"),
        ({"rdma_ports": [{**NIC, "netdev": "eth0"}]}, "ens2f0np0"),
    ],
)
def test_a_declared_value_that_differs_is_a_failure_that_names_both_and_nothing_is_written(
    tmp_path: Path, variables: dict[str, Any], said: str
) -> None:
    found = _judged(tmp_path, variables)
    assert found.edit is None and len(found.failures) == 1
    assert said in found.failures[0]
    assert exit_code((found,)) == 1


def test_a_stand_in_keeps_its_declared_gpu(tmp_path: Path) -> None:
    found = _judged(tmp_path, {"gpu_kind": "a100", "simulated": "true"})
    assert found.failures == () and found.edit is not None and "gpu_kind" not in found.edit.after
    assert found.notes[0].startswith("simulated: ")


def test_what_is_unknown_is_said_and_not_written(tmp_path: Path) -> None:
    found = _judged(tmp_path, {}, Hardware(Unknown("no driver"), "", 0, Unknown("no rdma tool")))
    assert (found.edit, dict(found.found)) == (None, {})
    assert found.notes == ("gpu_kind is not known: no driver", "RDMA ports are not known: no rdma tool")


def test_what_stands_in_the_file_stays_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "host_vars" / "p1.yaml"
    path.parent.mkdir()
    former = "---\n# 机房甲\nansible_become_password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\nrack:   甲"
    path.write_text(former, encoding="utf-8")
    path.chmod(0o640)
    change = edit(tmp_path, "p1", {"gpu_kind": "h100"})
    write([change])
    assert path.read_text(encoding="utf-8") == f"{former}\ngpu_kind: h100\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "+gpu_kind: h100" in change.diff and "a/host_vars/p1.yaml" in change.diff
    assert [entry.name for entry in path.parent.iterdir()] == ["p1.yaml"]


def test_a_folder_of_the_host_gets_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "host_vars" / "p1").mkdir(parents=True)
    assert edit(tmp_path, "p1", {"gpu_kind": "cpu"}).path == tmp_path / "host_vars" / "p1" / "discovered.yml"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p1.yml", "$ANSIBLE_VAULT;1.1;AES256\n6162\n", "is a vault; add with `ansible-vault edit`"),
        ("p1.json", "{}\n", "add by hand"),
        ("p1.yml", "{rack: 1}\n", "of a form that nothing can be added to"),
        ("p1.yml", "rack: 1\n...\n", "of a form that nothing can be added to"),
        ("p1.yml", "rack: [\n", "of a form that nothing can be added to"),
    ],
)
def test_a_file_that_cannot_be_added_to_is_left_alone_and_the_lines_are_given(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / "host_vars" / name
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotWritable) as caught:
        edit(tmp_path, "p1", {"gpu_kind": "h100"})
    assert said in str(caught.value) and "gpu_kind: h100" in str(caught.value)
    assert path.read_text(encoding="utf-8") == text


def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotWritable, match="plain name"):
        edit(tmp_path, "../x", {"gpu_kind": "cpu"})


def test_a_file_that_changed_between_the_question_and_the_answer_is_kept(tmp_path: Path) -> None:
    change = edit(tmp_path, "p1", {"gpu_kind": "cpu"})
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "p1.yml").write_text("rack: 1\n", encoding="utf-8")
    with pytest.raises(NotWritable, match="changed meanwhile"):
        write([change])
    assert (tmp_path / "host_vars" / "p1.yml").read_text(encoding="utf-8") == "rack: 1\n"


def _discover(
    inventory: Path, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pdctl", "inventory", "discover", str(inventory), *options],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


def _driver(folder: Path) -> Path:
    """nvidia-smi is a script here that prints what a driver of an H100 prints. The folder that holds it."""
    tool = folder / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(
        f"#!/bin/sh\ncase \"$*\" in *name*) cat <<'E'\n{_gpus('NVIDIA H100 PCIe').output}\nE\n;; esac\n",
        encoding="utf-8",
    )
    tool.chmod(0o755)
    return tool.parent


def test_a_driver_on_this_machine_is_asked_shown_and_written_only_with_a_word(tmp_path: Path) -> None:
    path = {"PATH": f"{_driver(tmp_path)}{os.pathsep}{os.environ['PATH']}"}
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("here ansible_connection=local rack=1\n", encoding="utf-8")
    silent = _discover(inventory, environment=path)
    assert silent.returncode == 2 and "no terminal to ask on" in silent.stderr
    assert "+gpu_kind: h100-pcie" in silent.stdout and not (tmp_path / "host_vars").exists()
    ran = _discover(inventory, "--yes", "-o", "json", environment=path)
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert (document["schema"], document["written"]) == ("pdctl.inventory-discover/1", True)
    written = yaml.safe_load((tmp_path / "host_vars" / "here.yml").read_text(encoding="utf-8"))
    assert (written["gpu_kind"], written["gpu_count"]) == ("h100-pcie", 1)
    inventory.write_text("here ansible_connection=local\n[all:vars]\ngpu_kind=a100\n", encoding="utf-8")
    (tmp_path / "host_vars" / "here.yml").unlink()
    differs = _discover(inventory, "--yes", environment=path)
    assert differs.returncode == 1 and not (tmp_path / "host_vars" / "here.yml").exists()
    assert "declared `a100`" in differs.stdout and "has `h100-pcie`" in differs.stdout


@pytest.mark.parametrize(
    ("declared", "there", "said"),
    [
        (
            "a100",
            H100,
            "`gpu_kind` is declared `a100` by group prefill, and the node has `h100-sxm` (NVIDIA H100 80GB HBM3); "
            "a stand-in says `simulated: true`",
        ),
        (
            "h100",
            Hardware("cpu", "", 0, ()),
            "`gpu_kind` is declared `h100` by group prefill, and the node has `cpu`; ",
        ),
        ("H100", H100, ""),
        ("h100", Hardware(Unknown("nvidia-smi answered nothing"), "", 0, ()), "nvidia-smi answered nothing"),
        ("h100", Unknown("no answer within 5 s"), "no answer within 5 s"),
    ],
    ids=["another", "none", "the same", "a silent driver", "not reached"],
)
def test_a_declared_kind_is_compared_with_the_node_or_it_is_said_why_not(
    declared: str, there: Hardware | Unknown, said: str
) -> None:
    told = compared(_host(gpu_kind=declared), there, "group prefill")
    nobody_can_tell = isinstance(there, Unknown) or isinstance(there.gpu_kind, Unknown)
    assert isinstance(told, Unknown) is nobody_can_tell
    text = told.reason if isinstance(told, Unknown) else told
    assert text.startswith(said) and "\n" not in text and bool(text) is bool(said)


def test_a_node_with_another_gpu_is_named_and_a_stand_in_spared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{_driver(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        "[prefill]\nhere\npretends simulated=true\nsame gpu_kind=h100\n[prefill:vars]\ngpu_kind=a100\n"
        "[all:vars]\nansible_connection=local\n",
        encoding="utf-8",
    )
    kinds = compare_kinds(load_inventory(inventory), connect_s=5.0, sudo=None)
    assert set(kinds.wrong) == {"here"} and kinds.untold == {}
    assert "is declared `a100` by group prefill, and the node has `h100-pcie`" in kinds.wrong["here"]
