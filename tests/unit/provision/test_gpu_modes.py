"""Role gpu: modes read back, the way to GPU memory, stray contexts named; nothing on a node without the driver."""

from pathlib import Path

import pytest
from tests.unit.provision.node_module import Answer, Programs, node_module

gpu = node_module("gpu", "pdctl_gpu")

QUERY = "nvidia-smi --query-gpu=index,uuid,name,compute_mode,persistence_mode --format=csv,noheader"
APPS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv,noheader"
TWO = "0, GPU-a, NVIDIA H100 80GB HBM3, Default, Enabled\n1, GPU-b, NVIDIA H100 80GB HBM3, Default, Disabled\n"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    return tmp_path


def _file(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_node_without_the_driver_is_skipped_with_its_reason(node: Path) -> None:
    assert gpu.reason_to_skip().startswith("no NVIDIA GPU")
    _file(node / "sys/bus/pci/devices/0000:81:00.0/class", "0x030200\n")
    _file(node / "sys/bus/pci/devices/0000:81:00.0/vendor", "0x10de\n")
    assert "no NVIDIA driver is loaded" in gpu.reason_to_skip()
    _file(node / "proc/driver/nvidia/version")
    assert gpu.reason_to_skip() == ""


def test_a_bridge_of_that_maker_is_no_gpu(node: Path) -> None:
    _file(node / "sys/bus/pci/devices/0000:01:00.0/class", "0x068000\n")
    _file(node / "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    assert gpu.reason_to_skip().startswith("no NVIDIA GPU")


def test_a_jetson_is_skipped_whatever_else_it_has(node: Path) -> None:
    _file(node / "proc/driver/nvidia/version")
    _file(node / "proc/device-tree/compatible", "nvidia,p3737-0000\0nvidia,tegra234\0")
    assert "Jetson" in gpu.reason_to_skip()


def test_a_mode_is_set_on_the_gpus_that_differ_and_read_back() -> None:
    after = TWO.replace("Disabled", "Enabled")
    module = Programs({QUERY: after, "nvidia-smi -i GPU-b -pm 1": ""})
    gpus = gpu.query(Programs({QUERY: TWO}))[0]
    assert gpu.bring(module, gpus, "persistence_mode", "Enabled", ["-pm", "1"]) == (["GPU-b"], [])
    assert module.ran == ["nvidia-smi -i GPU-b -pm 1", QUERY]


@pytest.mark.parametrize(
    ("answer", "words"),
    [("", "shows another"), ((4, "", "Insufficient Permissions"), "Insufficient Permissions")],
)
def test_a_mode_that_does_not_take_is_refused(answer: str | Answer, words: str) -> None:
    module = Programs({QUERY: TWO, "nvidia-smi -i GPU-b -pm 1": answer})
    gpus = gpu.query(module)[0]
    changed, (problem,) = gpu.bring(module, gpus, "persistence_mode", "Enabled", ["-pm", "1"])
    assert changed == []
    assert (problem["outcome"], problem["live"]) == ("refused", "Disabled") and words in problem["message"]


def test_a_check_sets_no_mode() -> None:
    module = Programs({QUERY: TWO}, check_mode=True)
    gpus = gpu.query(module)[0]
    assert gpu.bring(module, gpus, "compute_mode", "Exclusive_Process", ["-c", "3"]) == (["GPU-a", "GPU-b"], [])
    assert module.ran == [QUERY]


def test_a_driver_that_does_not_answer_is_told_in_its_words() -> None:
    said = "Failed to initialize NVML: Driver/library version mismatch"
    assert gpu.query(Programs({QUERY: (18, f"{said}\n", "")})) == ([], said)


ROWS = """\
GPU-a, 11, python3, 70000 MiB
GPU-b, 12, /opt/my engine, with commas, 70000 MiB
GPU-a, 12, /opt/my engine, with commas, 420 MiB
GPU-a, 13, nvidia-cuda-mps-server, 300 MiB
GPU-b, 14, [Not Found], [N/A]
"""


def test_an_empty_context_of_a_process_that_works_elsewhere_is_stray() -> None:
    rows = list(gpu.processes(Programs({APPS: ROWS})))
    assert len(rows) == 5
    assert gpu.stray(rows, 200, 900) == [
        {"gpu": "GPU-a", "pid": 12, "name": "/opt/my engine, with commas", "used_mib": 420}
    ]


def test_a_small_process_alone_on_its_gpu_is_not_stray() -> None:
    assert gpu.stray([("GPU-a", 1, "python3", 500)], 200, 900) == []
    assert len(gpu.stray([("GPU-a", 1, "python3", 500), ("GPU-a", 2, "python3", None)], 200, 900)) == 1


LICENCE = "modinfo -F license nvidia"
HAS_MODULE = "modinfo -F name nvidia_peermem"


@pytest.mark.parametrize(
    ("answers", "release", "way"),
    [
        ({LICENCE: "Dual MIT/GPL\n"}, "6.8.0-40-generic", "dma-buf"),
        ({LICENCE: "Dual MIT/GPL\n", HAS_MODULE: "nvidia_peermem\n"}, "5.4.0-1-generic", "nvidia_peermem"),
        ({LICENCE: "NVIDIA\n", HAS_MODULE: "nvidia_peermem\n"}, "6.8.0", "nvidia_peermem"),
        ({LICENCE: "NVIDIA\n"}, "6.8.0", ""),
    ],
)
def test_the_way_to_gpu_memory_goes_by_driver_and_kernel(
    node: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, str], release: str, way: str
) -> None:
    monkeypatch.setattr(gpu.platform, "release", lambda: release)
    assert gpu.way_to_memory(Programs(answers)) == ("", None)
    (node / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    found, problem = gpu.way_to_memory(Programs(answers))
    assert found == way
    assert (problem is None) is bool(way)


def test_a_peer_memory_module_of_another_stack_is_refused(node: Path) -> None:
    said = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
    loaded, problem = gpu.load_peermem(Programs({"modprobe nvidia_peermem": (1, "", said)}))
    assert not loaded and "another RDMA stack" in problem["message"]


# systemctl show of Ubuntu 22.04's nvidia-compute-utils.
SHOWN = (
    "LoadState=loaded\nExecStart={ path=/usr/bin/nvidia-persistenced ; argv[]=/usr/bin/nvidia-persistenced "
    "--user nvidia-persistenced --no-persistence-mode --verbose ; ignore_errors=no ; start_time=[n/a] ; pid=0 }\n"
)


def test_the_daemon_s_command_is_read_from_its_unit() -> None:
    show = "systemctl show --property=LoadState,ExecStart -- nvidia-persistenced.service"
    assert gpu.daemon(Programs({show: SHOWN})) == {
        "unit": True,
        "command": "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose",
    }
    assert gpu.daemon(Programs({show: "LoadState=not-found\n"})) == {"unit": False, "command": ""}
