"""The collector as a node runs it: whatever its tools do, evidence comes out, in time, and nothing is left behind."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest

from pdchecks.collector import proc_path, script
from pdchecks.counters import nic_readings
from pdchecks.evidence import Block, read_blocks
from pdchecks.nodefacts import gather
from pdchecks.policy import Layer, Policy, read_layer, resolve

ROOT = Path(__file__).parents[3]
SHIPPED = read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")
POLICY = resolve([SHIPPED])
SHELLS = [shell for shell in (["dash"], ["busybox", "sh"], ["bash", "--posix"]) if shutil.which(shell[0])]
DEADLINE_S = 60


def _run(text: str, shell: list[str] | None = None, **environment: str) -> list[Block]:
    ended = subprocess.run(
        [*(shell or ["sh"]), "-s"],
        input=text.encode("utf-8", "surrogateescape"),
        capture_output=True,
        timeout=DEADLINE_S,
        env={**os.environ, **environment},
        check=True,
    )
    assert ended.stderr == b""
    return read_blocks(ended.stdout.decode("utf-8", "surrogateescape"))


def _bounded(command_s: int, total_s: int, most: int = 131_072) -> str:
    """The script with other bounds: the last setting of a variable wins, and `main` is the last line."""
    body = script(POLICY, 0).rstrip().removesuffix("\nmain")
    return f"{body}\ncommand_s={command_s}\ntotal_s={total_s}\nmost={most}\nmain\n"


def _tool(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _first(folder: Path) -> str:
    return f"{folder}:{os.environ['PATH']}"


def _of(blocks: list[Block], start: str) -> list[Block]:
    return [block for block in blocks if block.command.startswith(start)]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_every_shell_collects_this_host_whole(shell: list[str]) -> None:
    blocks = _run(script(POLICY, 0), shell)
    assert blocks[0].command.startswith("pdctl-collect begin")
    assert blocks[-1].command == "pdctl-collect end"
    assert all(block.rc is not None for block in blocks)
    assert "ID=" in _of(blocks, "cat /etc/os-release")[0].output


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_script_is_clean_to_every_shell(shell: list[str]) -> None:
    checked = subprocess.run([*shell, "-n"], input=script(POLICY, 0).encode(), capture_output=True, timeout=DEADLINE_S)
    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_tool_that_hangs_costs_its_time_once_and_leaves_nobody_behind(shell: list[str], tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    deaf = "trap '' TERM INT HUP"
    _tool(
        tmp_path / "bin",
        "nvidia-smi",
        f"#!/bin/sh\n{deaf}\necho $$ >>{pids}\n({deaf}; sleep 1000) & echo $! >>{pids}\nwait\n",
    )
    began = time.monotonic()
    blocks = _run(_bounded(1, 60), shell, PATH=_first(tmp_path / "bin"))
    first, *rest = _of(blocks, "nvidia-smi")
    assert (first.rc, first.output) == (124, "pdctl: no answer within 1 s")
    assert {block.output for block in rest} == {"pdctl: not run, nvidia-smi gave no answer before"}
    assert blocks[-1].command == "pdctl-collect end"
    assert time.monotonic() - began < 20
    for pid in pids.read_text(encoding="utf-8").split():
        assert not _lives(int(pid))


@pytest.mark.parametrize(
    ("deadline_s", "bounds"), [(0, (10, 90)), (30, (10, 90)), (120, (10, 90)), (240, (20, 180)), (900, (75, 675))]
)
def test_a_longer_deadline_gives_a_slow_nodes_commands_more_time(deadline_s: float, bounds: tuple[int, int]) -> None:
    text = script(POLICY, 0, deadline_s)
    assert text.startswith("command_s={}\ntotal_s={}\n".format(*bounds))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_tool_that_cannot_be_killed_is_left_behind(tmp_path: Path) -> None:
    """Out of the session, as a process in uninterruptible sleep is out of reach, and holding the output open."""
    pid = tmp_path / "pid"
    _tool(tmp_path / "bin", "ip", f"#!/bin/sh\necho half\nsetsid sh -c 'echo $$ >{pid}; exec sleep 60' &\nexit 0\n")
    began = time.monotonic()
    blocks = _run(_bounded(1, 60), PATH=_first(tmp_path / "bin"))
    assert time.monotonic() - began < 15
    assert _of(blocks, "ip addr")[0].rc == 124
    assert blocks[-1].command == "pdctl-collect end"
    os.kill(int(pid.read_text(encoding="utf-8").split()[0]), signal.SIGKILL)


def test_the_whole_run_is_bounded_and_says_what_it_did_not_run(tmp_path: Path) -> None:
    for name in ("locale", "uname", "ip", "systemctl", "dmesg"):
        _tool(tmp_path / "bin", name, "#!/bin/sh\nsleep 1000\n")
    began = time.monotonic()
    blocks = _run(_bounded(2, 3), PATH=_first(tmp_path / "bin"))
    assert time.monotonic() - began < 15
    assert blocks[-1].command == "pdctl-collect end"
    skipped = [block for block in blocks if "not run" in block.output]
    assert skipped
    assert {block.rc for block in skipped} == {124}


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_counters_are_read_twice_and_the_second_reading_says_how_long_after(shell: list[str], tmp_path: Path) -> None:
    count = tmp_path / "count"
    _tool(
        tmp_path / "bin",
        "ethtool",
        f'#!/bin/sh\n[ "$1" = -S ] || exit 1\necho x >>{count}\necho "NIC statistics:"\n'
        f'echo "     rx_packets: $(wc -l <{count})"\n',
    )
    body = script(POLICY, 2).rstrip().removesuffix("\nmain")
    nic = "paths() { case $1 in /sys/class/net/*) echo /sys/class/net/lab9/device;; esac; }"
    blocks = _run(f"{body}\n{nic}\nmain\n", shell, PATH=_first(tmp_path / "bin"))
    first, second = [block for block in blocks if "ethtool -S" in block.command]
    assert first.command == "ethtool -S lab9"
    slept = re.fullmatch(r"sleep (\d+\.\d\d); ethtool -S lab9", second.command)
    assert slept
    assert 2 <= float(slept[1]) < DEADLINE_S
    (reading,) = nic_readings(gather(_evidence(blocks)))
    assert reading.grown == {"rx_packets": 1}
    assert reading.seconds == float(slept[1])


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_only_this_hosts_own_engines_are_asked_for_their_metrics(shell: list[str], tmp_path: Path) -> None:
    record = tmp_path / "pdctl" / "deployments" / "demo" / "record.json"
    record.parent.mkdir(parents=True)
    urls = ("http://127.0.0.1:8101", "http://10.0.0.9:8102", "http://127.0.0.1:1/x", "http://127.0.0.1:2;reboot")
    record.write_text("\n".join(f'  "url": "{url}"' for url in urls), encoding="utf-8")
    record.with_name("status.json").write_text("{}", encoding="utf-8")
    _tool(tmp_path / "bin", "curl", '#!/bin/sh\necho "# TYPE pdserve_requests_running gauge"\n')
    blocks = _run(script(POLICY, 0), shell, PATH=_first(tmp_path / "bin"), XDG_STATE_HOME=str(tmp_path))
    asked = [block.command for block in _of(blocks, "curl")]
    assert asked == ["curl -sS --noproxy * --max-time 5 http://127.0.0.1:8101/metrics"] * 2


def test_without_an_interval_counters_are_read_once(tmp_path: Path) -> None:
    _tool(tmp_path / "bin", "ethtool", "#!/bin/sh\necho NIC statistics:\n")
    body = script(POLICY, 0).rstrip().removesuffix("\nmain")
    nic = "paths() { case $1 in /sys/class/net/*) echo /sys/class/net/lab9/device;; esac; }"
    blocks = _run(f"{body}\n{nic}\nmain\n", PATH=_first(tmp_path / "bin"))
    assert [block.command for block in blocks if "ethtool -S" in block.command] == ["ethtool -S lab9"]


def test_a_node_without_the_tools_of_a_posix_system_says_which_are_missing(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "cat", "sed"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    text = re.sub(r"^PATH=.*$", "", script(POLICY, 0), flags=re.MULTILINE)
    (block,) = _run(text, PATH=str(tmp_path / "bin"))
    assert (block.command, block.rc) == ("pdctl-collect begin", 127)
    assert block.output == "pdctl: cannot look, not installed: date grep head id sleep sort tail wc"


def test_an_absent_tool_is_said_to_be_absent(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for tool in (
        "sh",
        "id",
        "date",
        "head",
        "wc",
        "cat",
        "sed",
        "grep",
        "sleep",
        "setsid",
        "env",
        "tail",
        "tr",
        "sort",
    ):
        found = shutil.which(tool)
        assert found
        (tmp_path / "bin" / tool).symlink_to(found)
    text = re.sub(r"^PATH=.*$", "", script(POLICY, 0), flags=re.MULTILINE)
    blocks = _run(text, PATH=str(tmp_path / "bin"))
    lsmod = _of(blocks, "lsmod")[0]
    assert (lsmod.rc, lsmod.output) == (127, "pdctl: lsmod is not installed")
    facts = gather(_evidence(blocks))
    assert facts.collected
    assert facts.why_unread("lsmod") == "lsmod is not installed"


def _evidence(blocks: list[Block]):  # type: ignore[no-untyped-def]
    from pdchecks.evidence import by_node

    return by_node(blocks, "node")[0]


def test_bytes_that_are_no_utf_8_arrive_as_they_are(tmp_path: Path) -> None:
    _tool(tmp_path / "bin", "ip", "#!/bin/sh\nprintf 'caf\\351 \\377\\376\\000x\\n'\n")
    blocks = _run(script(POLICY, 0), PATH=_first(tmp_path / "bin"))
    output = _of(blocks, "ip addr")[0].output
    assert output.encode("utf-8", "surrogateescape").replace(b"\0", b"") == b"caf\xe9 \xff\xfex"


def test_a_tool_cannot_forge_blocks(tmp_path: Path) -> None:
    _tool(tmp_path / "bin", "ip", "#!/bin/sh\nprintf '=== end\\n=== cmd: forged\\n=== rc: 0\\n'\n")
    blocks = _run(script(POLICY, 0), PATH=_first(tmp_path / "bin"))
    assert not _of(blocks, "forged")
    assert " === cmd: forged" in _of(blocks, "ip addr")[0].output


def test_an_endless_output_is_cut_and_says_so(tmp_path: Path) -> None:
    _tool(tmp_path / "bin", "ip", "#!/bin/sh\ni=0\nwhile [ $i -lt 4000 ]; do echo 0123456789; i=$((i + 1)); done\n")
    blocks = _run(_bounded(20, 60, most=1000), PATH=_first(tmp_path / "bin"))
    output = _of(blocks, "ip addr")[0].output
    assert output.endswith("pdctl: output cut at 1000 bytes")
    assert len(output) < 1100
    assert _of(blocks, "ip addr")[0].rc == 0


def test_tools_speak_c_and_the_session_shows_its_own_locale(tmp_path: Path) -> None:
    _tool(tmp_path / "bin", "ip", '#!/bin/sh\necho "LC_ALL=$LC_ALL LANGUAGE=$LANGUAGE"\n')
    blocks = _run(script(POLICY, 0), PATH=_first(tmp_path / "bin"), LANG="C.UTF-8", LC_ALL="", LANGUAGE="de")
    assert _of(blocks, "ip addr")[0].output == "LC_ALL=C LANGUAGE="
    assert "LANG=C.UTF-8" in _of(blocks, "locale")[0].output
    assert _of(blocks, "LC_ALL=C.UTF-8 locale charmap")[0].output == "UTF-8"


def test_a_status_of_a_tool_is_kept(tmp_path: Path) -> None:
    _tool(tmp_path / "bin", "ip", "#!/bin/sh\necho refused >&2\nexit 7\n")
    blocks = _run(script(POLICY, 0), PATH=_first(tmp_path / "bin"))
    assert (_of(blocks, "ip addr")[0].rc, _of(blocks, "ip addr")[0].output) == (7, "refused")


_AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
needs_another_user = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="becomes another user by setpriv as root"
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can read, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _as_nobody(folder: Path, *before: str) -> list[Block]:
    ended = subprocess.run(
        [*_AS_NOBODY, "sh", "-s"],
        input="\n".join((*before, script(POLICY, 0))).encode(),
        capture_output=True,
        timeout=DEADLINE_S,
        env={**os.environ, "PATH": _first(folder)},
        check=True,
    )
    return read_blocks(ended.stdout.decode("utf-8", "surrogateescape"))


@needs_another_user
def test_without_root_it_collects_the_rest_and_says_what_needs_root(open_folder: Path) -> None:
    _tool(open_folder / "bin", "sudo", "#!/bin/sh\necho a password is required >&2\nexit 1\n")
    _tool(open_folder / "bin", "journalctl", "#!/bin/sh\necho a line\n")
    blocks = _as_nobody(open_folder / "bin")
    assert "privilege none" in blocks[0].output
    assert blocks[-1].command == "pdctl-collect end"
    journal = _of(blocks, "journalctl")
    assert journal
    assert {(block.rc, block.output) for block in journal} == {(126, "pdctl: needs root, and sudo asks for a password")}


@needs_another_user
def test_sudo_is_used_where_it_asks_nothing_and_only_where_root_is_needed(open_folder: Path) -> None:
    _tool(open_folder / "bin", "sudo", '#!/bin/sh\n[ "$1" = -n ] || exit 1\nshift\nSUDO_USED=1 exec "$@"\n')
    _tool(open_folder / "bin", "journalctl", '#!/bin/sh\necho "as root: ${SUDO_USED-0}"\n')
    _tool(open_folder / "bin", "ip", '#!/bin/sh\necho "as root: ${SUDO_USED-0}"\n')
    blocks = _as_nobody(open_folder / "bin")
    assert "privilege sudo" in blocks[0].output
    assert {block.output for block in _of(blocks, "sudo -n") if "journalctl" in block.command} == {"as root: 1"}
    assert {block.output for block in _of(blocks, "ip ")} == {"as root: 0"}


# It shows what every process of the machine may see of it, and what it leaves unread for the command.
_ASKING = r"""#!/bin/sh
[ "$1" = -n ] && { echo 'sudo: a password is required' >&2; exit 1; }
[ "$1 $2" = '-S -p' ] && [ -z "$3" ] || exit 1
shift 3
read -r said
[ "$said" = 'FIRST SECOND' ] || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
grep -saH 'FIRST[ ]SECOND' /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' ' ' >>SEEN
SUDO_USED=1 exec "$@"
"""


@needs_another_user
def test_a_sudo_password_gives_root_and_is_in_no_argument_environment_or_evidence(open_folder: Path) -> None:
    seen = open_folder / "seen"
    seen.touch()
    seen.chmod(0o666)
    # Its own words: another program on the machine may well speak of a correct horse.
    first, second = token_hex(8), token_hex(8)
    asking = _ASKING.replace("SEEN", str(seen)).replace("FIRST", first).replace("SECOND", second)
    _tool(open_folder / "bin", "sudo", asking)
    _tool(open_folder / "bin", "journalctl", '#!/bin/sh\necho "as root: ${SUDO_USED-0}; read $(wc -c)"\n')
    blocks = _as_nobody(open_folder / "bin", f"sudo_password='{first} {second}'")
    assert "privilege password" in blocks[0].output
    answers = {block.output for block in _of(blocks, "sudo -S") if "journalctl" in block.command}
    assert answers == {"as root: 1; read 0"}
    assert not [block for block in blocks if second in block.output or second in block.command]
    assert seen.read_text(encoding="utf-8") == ""


@needs_another_user
def test_a_wrong_sudo_password_is_tried_once_and_told(open_folder: Path) -> None:
    tried = open_folder / "tried"
    tried.touch()
    tried.chmod(0o666)
    counting = _ASKING.replace("SEEN", "/dev/null").replace("read -r said", f"read -r said; echo >>{tried}")
    _tool(open_folder / "bin", "sudo", counting)
    _tool(open_folder / "bin", "journalctl", "#!/bin/sh\necho a line\n")
    blocks = _as_nobody(open_folder / "bin", "sudo_password=wrong")
    said = {(block.rc, block.output) for block in _of(blocks, "journalctl")}
    words = "pdctl: needs root, and sudo did not take the password: sudo: 1 incorrect password attempt"
    assert said == {(126, words)}
    assert tried.read_text(encoding="utf-8") == "\n"


def test_nothing_of_a_policy_becomes_a_command(tmp_path: Path) -> None:
    evil = f"$(touch {tmp_path}/here)"
    # The policy refuses such values, and the script would quote them.
    shipped = resolve([SHIPPED])
    values = shipped.values.model_copy(
        update={
            "locale": shipped.values.locale.model_copy(update={"candidates": [evil, "';touch x'"]}),
            "modules": shipped.values.modules.model_copy(update={"load": ["`reboot`"]}),
            "sysctl": {evil: 1},
        }
    )
    _run(script(replace(shipped, values=values), 0))
    assert not (tmp_path / "here").exists()


def test_keys_of_sysctl_become_paths_as_sysctl_d_reads_them() -> None:
    assert proc_path("net.ipv4.tcp_rmem") == "/proc/sys/net/ipv4/tcp_rmem"
    assert proc_path("net/ipv4/conf/eth0.100/rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    assert proc_path("net.ipv4.conf.eth0/100.rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"


def test_a_null_leaves_a_key_alone() -> None:
    policy: Policy = resolve([SHIPPED, Layer("site", {"sysctl": {"net.core.rmem_max": None}})])
    assert "rmem_max" not in script(policy).split("\nmodules=")[0]
