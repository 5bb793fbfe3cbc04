import pytest
from tests.unit.checks.parse.reading import node, read

from pdchecks.facts.gpu import Gpu, GpuProcess, GpuQueryRefused
from pdchecks.gpus import devices
from pdchecks.unknown import Unknown

UUID = "GPU-00000000-0000-0000-0000-000000000001"


def test_a_header_gives_the_fields_and_its_units_go_away() -> None:
    text = "index, uuid, memory.used [MiB], utilization.gpu [%]\n0, GPU-1, 512 MiB, [N/A]"
    (gpu,) = read(Gpu, "nvidia-smi --query-gpu=index,uuid,memory.used,utilization.gpu --format=csv", text)
    assert gpu.label == "GPU 0"
    assert gpu.fields["memory.used"] == "512 MiB"
    assert gpu.fields["utilization.gpu"] == Unknown("utilization.gpu: N/A")


def test_without_a_header_the_command_gives_the_fields() -> None:
    command = "nvidia-smi --query-gpu=index,compute_mode --format=csv,noheader,nounits"
    assert [gpu.fields["compute_mode"] for gpu in read(Gpu, command, "0, Default\n1, Exclusive_Process")] == [
        "Default",
        "Exclusive_Process",
    ]


def test_the_name_of_a_process_may_hold_commas() -> None:
    command = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader"
    (process,) = read(GpuProcess, command, f"{UUID}, 41, python a, b, c, 700 MiB")
    assert (process.gpu, process.pid, process.name, process.used_mib) == (UUID, 41, "python a, b, c", 700)


@pytest.mark.parametrize(
    "sentinel", ["[N/A]", "[Not Supported]", "[Insufficient Permissions]", "[Unknown Error]", "ERR!"]
)
def test_a_sentinel_is_unknown_and_never_a_number(sentinel: str) -> None:
    command = "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader"
    (gpu,) = read(Gpu, command, f"0, {sentinel}")
    value = gpu.fields["memory.used"]
    assert isinstance(value, Unknown)
    assert sentinel.strip("[]") in value.reason


def test_an_unknown_field_fails_the_whole_query_and_is_named() -> None:
    command = "nvidia-smi --query-compute-apps=pid,compute_mode --format=csv"
    (refused,) = read(GpuQueryRefused, command, 'Field "compute_mode" is not a valid field to query.\n', 2)
    assert (refused.field, refused.what) == ("compute_mode", "compute-apps")


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is running.",
        "No devices were found",
        "Unable to determine the device handle for GPU0000:C1:00.0: Unknown Error",
    ],
)
def test_a_driver_that_does_not_answer_is_heard(text: str) -> None:
    (refused,) = read(GpuQueryRefused, "nvidia-smi", text, 9)
    assert refused.field == ""


TABLE = """\
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   36C    P0            115W /  700W |   32264MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-SXM2...  Off  | 00000000:2A:00.0 Off |                    2 |
| N/A   38C    P0    54W / 300W |   3862MiB / 16160MiB |      0%   E. Process |
| Processes:                                                                              |
|    0   N/A  N/A   2695172      C   [xarexec] ./dlrm_hack2.par                  26167MiB |
|    1        41002      C   python                                      871MiB |
|    1   N/A  N/A      1499      G   /usr/lib/xorg/Xorg                              4MiB |
"""


def test_the_table_for_people_gives_gpus_of_new_and_old_drivers() -> None:
    first, second = read(Gpu, "nvidia-smi", TABLE)
    assert (first.label, first.fields["memory.used"], first.fields["persistence_mode"]) == ("GPU 0", "32264", "Enabled")
    assert first.fields["mig.mode.current"] == "Disabled"
    assert (second.fields["compute_mode"], second.fields["persistence_mode"]) == ("Exclusive_Process", "Disabled")
    assert second.fields["ecc.errors.uncorrected.volatile.total"] == "2"


def test_the_table_for_people_gives_processes_of_new_and_old_drivers() -> None:
    rows = [(row.gpu, row.pid, row.used_mib, row.kind) for row in read(GpuProcess, "nvidia-smi", TABLE)]
    assert rows == [("GPU 0", 2695172, 26167, "C"), ("GPU 1", 41002, 871, "C"), ("GPU 1", 1499, 4, "G")]


def test_sections_of_q_have_the_names_of_a_query() -> None:
    text = (
        "==============NVSMI LOG==============\n\nDriver Version                            : 550.54.15\n\n"
        "GPU 00000000:18:00.0\n    Persistence Mode                      : Disabled\n    ECC Errors\n        Volatile\n"
        "            DRAM Uncorrectable            : 3\n        Aggregate\n            DRAM Uncorrectable            : 7\n"
        "    Remapped Rows\n        Pending                           : Yes\n    FB Memory Usage\n"
        "        Used                              : 512 MiB\n    BAR1 Memory Usage\n"
        "        Used                              : 2 MiB"
    )
    (gpu,) = read(Gpu, "nvidia-smi -q", text)
    assert gpu.fields["persistence_mode"] == "Disabled"
    assert gpu.fields["ecc.errors.uncorrected.volatile.dram"] == "3"
    assert gpu.fields["ecc.errors.uncorrected.aggregate.dram"] == "7"
    assert gpu.fields["remapped_rows.pending"] == "Yes"
    assert gpu.fields["memory.used"] == "512 MiB"


def test_queries_of_one_gpu_are_put_together() -> None:
    from pdchecks.evidence import Block, Evidence
    from pdchecks.nodefacts import gather

    blocks = (
        Block("nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader", 0, f"3, {UUID}, 00000000:C1:00.0"),
        Block(
            "nvidia-smi --query-remapped-rows=gpu_uuid,remapped_rows.pending --format=csv,noheader", 0, f"{UUID}, Yes"
        ),
        Block("nvidia-smi -q", 0, "====NVSMI LOG====\nGPU 00000000:C1:00.0\n    Compute Mode        : Default"),
    )
    (device,) = devices(gather(Evidence("node", blocks)))
    assert (device.name, device.known("remapped_rows.pending"), device.known("compute_mode")) == (
        "GPU 3",
        "Yes",
        "Default",
    )


@pytest.mark.parametrize("cut", range(0, len(TABLE), 37))
def test_a_table_that_was_cut_is_read_as_far_as_it_goes(cut: int) -> None:
    assert not [unread for unread in node("nvidia-smi", TABLE[:cut]).unread if "broke" in unread.reason]
