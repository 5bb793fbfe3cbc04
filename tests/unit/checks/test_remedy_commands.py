"""Commands of remedies that a shell can run as they are printed: for this node's family, this limit, this line."""

import subprocess
from pathlib import Path

import pytest

from pdchecks.evidence import by_node, read_blocks
from pdchecks.finding import Finding
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.registry import CHECKS
from pdchecks.run import diagnose

POLICY = resolve([read_layer(Path(__file__).parents[3] / "roles" / "policy" / "files" / "policy.yml")])
DEBIAN = "=== cmd: cat /etc/os-release\n=== rc: 0\nID=debian\nVERSION_ID=12\n=== end\n"
ROCKY = '=== cmd: cat /etc/os-release\n=== rc: 0\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n=== end\n'


def _policy(node: str) -> Policy:
    return POLICY


def _finding(check: str, text: str) -> Finding:
    blocks = by_node(read_blocks(text), "node")
    return next(found for found in diagnose(blocks, _policy, [c for c in CHECKS if c.id == check]) if found.fault)


def _commands(check: str, text: str) -> tuple[str, ...]:
    remedy = _finding(check, text).remedy
    assert remedy is not None
    return remedy.commands


@pytest.mark.parametrize(("release", "tool"), [(DEBIAN, "update-locale"), (ROCKY, "localectl")])
def test_the_command_is_the_one_of_the_nodes_family(release: str, tool: str) -> None:
    file = "=== cmd: cat /etc/default/locale\n=== rc: 0\nLANG=xx_YY.UTF-8\n=== end\n"
    proof = "=== cmd: LC_ALL=xx_YY.UTF-8 locale charmap\n=== rc: 0\nANSI_X3.4-1968\n=== end\n"
    (command,) = _commands("PD-LOCALE-001", release + file + proof)
    assert command.split()[0] == tool
    assert "(" not in command


def test_a_locale_that_the_node_has_is_taken_before_one_that_it_lacks() -> None:
    listed = "=== cmd: locale -a\n=== rc: 0\nC\nPOSIX\nen_US.utf8\n=== end\n"
    file = "=== cmd: cat /etc/default/locale\n=== rc: 0\nLANG=xx_YY.UTF-8\n=== end\n"
    (command,) = _commands("PD-LOCALE-001", DEBIAN + listed + file)
    assert command.endswith("LANG=en_US.UTF-8")


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ("=== cmd: cat /proc/self/limits\n=== rc: 0\nMax open files  1024  524288  files\n=== end\n", "limits.d"),
        ("=== cmd: systemctl show -p DefaultLimitNOFILE\n=== rc: 0\nDefaultLimitNOFILE=1024\n=== end\n", "[Manager]"),
        (
            "=== cmd: systemctl show -p LimitNOFILE vllm.service\n=== rc: 0\nLimitNOFILE=1024\n=== end\n",
            "/etc/systemd/system/vllm.service.d",
        ),
    ],
)
def test_a_limit_is_raised_where_it_is_set(shown: str, wanted: str) -> None:
    commands = _commands("PD-LIMIT-002", shown)
    assert any(wanted in command for command in commands)
    for command in commands:
        assert subprocess.run(["sh", "-nc", command], check=False).returncode == 0, command


def test_the_process_of_a_unit_is_judged_where_the_units_own_limit_was_not_shown() -> None:
    unit = "=== cmd: systemctl show vllm.service\n=== rc: 0\nId=vllm.service\nLoadState=loaded\nMainPID=7\n=== end\n"
    process = "=== cmd: cat /proc/7/limits\n=== rc: 0\nMax open files  1024  1024  files\n=== end\n"
    assert _finding("PD-LIMIT-002", unit + process).subject.object == "nofile of process 7"


def test_the_command_for_a_pasted_character_leaves_ascii(tmp_path: Path) -> None:
    path = tmp_path / "x.repo"
    path.write_text("[x]\nname='\u00a0'\nbaseurl=https://192.0.2.1/a\u00a0b\u00a0c\n", encoding="utf-8")
    line = "/etc/yum.repos.d/x.repo:3:baseurl=https://192.0.2.1/a\u00a0b\u00a0c"
    text = f"=== cmd: grep -naH '[^[:print:][:space:]]' /etc/yum.repos.d/x.repo\n=== rc: 0\n{line}\n=== end\n"
    _show, mend = _commands("PD-YUM-001", text)
    subprocess.run(["sh", "-c", mend.replace("/etc/yum.repos.d/x.repo", str(path))], check=True)
    assert path.read_text(encoding="utf-8") == "[x]\nname='\u00a0'\nbaseurl=https://192.0.2.1/a b c\n"


def test_a_letter_has_no_ascii_twin_and_is_left_to_a_person() -> None:
    line = "/etc/yum.repos.d/x.repo:1:[caf\u00e9]"
    text = f"=== cmd: grep -naH '[^[:print:][:space:]]' /etc/yum.repos.d/x.repo\n=== rc: 0\n{line}\n=== end\n"
    assert [command.split()[0] for command in _commands("PD-YUM-001", text)] == ["sed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("options mlx5_core log_sz_xrq=12\n", ""),
        ("options mlx5-core prof_sel=2 log_sz_xrq=12\n", "options mlx5-core prof_sel=2\n"),
        ("options mlx5_core log_sz_xrq=12 prof_sel=2\n", "options mlx5_core prof_sel=2\n"),
        ("options mlx5_core log_sz_xrq_more=1\n", "options mlx5_core log_sz_xrq_more=1\n"),
        ("options mlx4_core log_sz_xrq=12\n", "options mlx4_core log_sz_xrq=12\n"),
        ("# options mlx5_core log_sz_xrq=12\n", "# options mlx5_core log_sz_xrq=12\n"),
    ],
)
def test_the_command_takes_only_the_ghost_option_out(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "site.conf"
    path.write_text(before, encoding="utf-8")
    parameters = "=== cmd: modinfo -p mlx5_core\n=== rc: 0\nprof_sel:profile selector (uint)\n=== end\n"
    options = "=== cmd: modprobe -c | grep ^options\n=== rc: 0\noptions mlx5_core log_sz_xrq=12\n=== end\n"
    commands = _commands("PD-DRV-002", DEBIAN + parameters + options)
    assert commands[-1] == "update-initramfs -u"
    subprocess.run(["sh", "-c", commands[1].replace("/etc/modprobe.d", str(tmp_path))], check=True)
    assert path.read_text(encoding="utf-8") == after


def test_what_is_no_options_name_gets_into_no_command() -> None:
    options = "=== cmd: modprobe -c | grep ^options\n=== rc: 0\noptions mlx5_core a';reboot;'=1\n=== end\n"
    parameters = "=== cmd: modinfo -p mlx5_core\n=== rc: 0\nprof_sel:profile selector (uint)\n=== end\n"
    assert not any("reboot" in command for command in _commands("PD-DRV-002", DEBIAN + parameters + options))
