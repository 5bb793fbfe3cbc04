"""What the kernel refuses, rounds or ignores without a word is reported as such by the run that asked for it, never as done."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.lab.vm.machine import VirtualMachine
from tests.lab.vm.provisioning import problem, provision

pytestmark = [pytest.mark.lab, pytest.mark.timeout(7200), pytest.mark.usefixtures("soak")]

ROUNDED_MS = 30_001
READ_ONLY, TOO_SMALL = "kernel.osrelease", "net.core.rmem_max"
DEFAULT = "net.ipv4.neigh.default.base_reachable_time_ms"
POLICY: Mapping[str, Any] = {
    "sysctl": {READ_ONLY: "0.1", TOO_SMALL: 1, DEFAULT: ROUNDED_MS},
    "modules": {"options": {"mlx5_core": {"log_sz_xrq": 12, "prof_sel": 1}}},
}


def test_each_setting_that_does_not_hold_says_how(vm: VirtualMachine) -> None:
    code, host = provision(vm, tags="sysctl,mlx5", policy=POLICY)
    assert (code, host["status"]) == (4, "partly")

    read_only, too_small = problem(host, READ_ONLY), problem(host, TOO_SMALL)
    assert (read_only["outcome"], read_only["live"]) == ("refused", vm.image.release)
    assert (too_small["outcome"], too_small["errno_name"]) == ("refused", "EINVAL")
    assert str(too_small["live"]) == vm.ssh(f"sysctl -n {TOO_SMALL}").strip() != "1"

    # The default is a template: each interface that is there was set by itself, and each is rounded.
    keys = {each["key"] for each in host["problems"] if each["outcome"] == "clamped"}
    assert {DEFAULT, DEFAULT.replace("default", "eth0"), DEFAULT.replace("default", "eth1")} <= keys
    rounded = problem(host, DEFAULT.replace("default", "eth1"))
    assert rounded["wanted"] == str(ROUNDED_MS) != rounded["live"]
    assert abs(int(rounded["live"]) - ROUNDED_MS) < 10

    ghost = problem(host, "mlx5_core log_sz_xrq")
    assert ghost["outcome"] == "absent" and "prof_sel" in ghost["message"]
    assert vm.ssh("grep -h '^options mlx5_core' /etc/modprobe.d/*").split() == ["options", "mlx5_core", "prof_sel=1"]
