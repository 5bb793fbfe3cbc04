import pytest

from pdctl.deploy.kinds import HostKinds, kind_of, probe
from pdctl.errors import UsageError

# As `nvidia-smi --query-gpu=name --format=csv,noheader` prints them.
PRODUCTS = {
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA A100-SXM4-80GB": "a100",
    "NVIDIA L40S": "l40s",
    "NVIDIA GH200 480GB": "gh200",
    "Tesla V100-SXM2-16GB": "v100",
    "Orin (nvgpu)": "orin",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
}


@pytest.mark.parametrize(("product", "kind"), PRODUCTS.items())
def test_a_product_name_gives_its_kind(product: str, kind: str) -> None:
    assert kind_of(product) == kind


def test_a_kind_that_is_not_here_is_refused_with_what_is() -> None:
    with pytest.raises(UsageError) as caught:
        HostKinds(("a100",), None).device("h100", "--prefill")
    text = caught.value.render()
    assert "--prefill h100" in text and "a100, cpu" in text and "-i INVENTORY" in text


def test_the_second_gpu_of_another_kind_is_its_own_device() -> None:
    host = HostKinds(("h100", "a100"), None)
    assert host.device("a100", "--decode") == ("a100", "cuda:1")
    assert host.device(None, "--decode") == ("h100", "cuda:0")
    assert host.device("cpu", "--decode") == ("cpu", "cpu")


def test_without_a_driver_the_only_kind_is_cpu_and_the_reason_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    host = probe()
    assert host.default == "cpu" and host.reason and "nvidia-smi" in host.reason


def test_a_driver_that_fails_is_a_reason_not_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not reach the driver'\nexit 9\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert probe().gpus == () and "could not reach" in str(probe().reason)
