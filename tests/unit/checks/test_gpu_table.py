"""The GPU table: complete, dense, each figure with a source, and found by whatever a user calls a GPU."""

from __future__ import annotations

import pytest

from pdchecks.pair.gpus import Gpu, GpuChoice, find_gpu, gpu_table
from pdchecks.unknown import Unknown

FAMILIES = (
    "h100",
    "h200",
    "h800",
    "h20",
    "a100",
    "a800",
    "l40s",
    "l40",
    "l4",
    "a10",
    "a30",
    "v100",
    "t4",
    "b200",
    "b100",
    "gb200",
    "rtx-4090",
    "rtx-5090",
    "rtx-6000-ada",
    "orin",
    "mi300x",
    "gaudi3",
    "cpu",
)


def found(word: str) -> GpuChoice:
    choice = find_gpu(word)
    assert not isinstance(choice, Unknown), choice
    return choice


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_there(family: str) -> None:
    assert found(family).boards


@pytest.mark.parametrize("gpu", gpu_table(), ids=[gpu.kind for gpu in gpu_table()])
def test_every_row_is_whole_and_says_where_it_is_from(gpu: Gpu) -> None:
    assert gpu.source
    if gpu.family == "cpu":
        return
    assert gpu.names and gpu.memory_gb_s and gpu.memory_gib
    assert gpu.tflops and all(value > 0 for value in gpu.tflops.values())
    assert set(gpu.tflops) <= {"fp32", "tf32", "bf16", "fp16", "fp8"}
    if "fp8" in gpu.tflops and "fp16" in gpu.tflops:
        assert 1.9 <= gpu.tflops["fp8"] / gpu.tflops["fp16"] <= 2.1
    # bfloat16 from compute capability 8.0, FP8 from 8.9.
    if gpu.compute_capability is not None:
        assert ("bf16" in gpu.tflops) is (gpu.compute_capability >= (8, 0))
        assert ("fp8" in gpu.tflops) is (gpu.compute_capability >= (8, 9))


@pytest.mark.parametrize(
    ("kind", "dtype", "dense"),
    [("h100-sxm", "bf16", 989.5), ("a100-sxm-80", "bf16", 312), ("l40s", "fp16", 362.05), ("h100-sxm", "fp8", 1979)],
)
def test_figures_are_dense_not_sparse(kind: str, dtype: str, dense: float) -> None:
    assert found(kind).figure(lambda gpu: gpu.tflops[dtype]) == dense


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("Tesla T4", "t4"),
        (" nvidia l40s ", "l40s"),
        ("H200-SXM", "h200-sxm"),
        ("orin", "orin"),
    ],
)
def test_a_gpu_is_found_by_kind_family_and_nvidia_smi_s_name(word: str, kind: str) -> None:
    assert str(found(word)) == kind


def test_a_family_knows_what_its_boards_agree_on_and_nothing_else() -> None:
    h100 = found("h100")
    assert h100.compute_capability == (9, 0)
    memory = h100.figure(lambda gpu: gpu.memory_gib)
    assert isinstance(memory, Unknown)
    assert "h100-sxm, h100-pcie, h100-nvl" in memory.reason


def test_an_unknown_gpu_is_unknown_and_names_what_is_near_it() -> None:
    choice = find_gpu("h101")
    assert isinstance(choice, Unknown)
    assert "h101" in choice.reason and "near it: h100" in choice.reason


def test_no_two_rows_share_a_kind_or_a_name_unless_they_are_one_family() -> None:
    names: dict[str, str] = {}
    for gpu in gpu_table():
        for name in gpu.names:
            assert names.setdefault(name, gpu.family) == gpu.family
