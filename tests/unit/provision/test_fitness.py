"""What a node says of itself before it is touched is judged in one line, the gravest fault first."""

import importlib.util
import subprocess
from types import ModuleType

import pytest

from pdctl.content import content_root
from pdctl.provisioning.ssh_words import in_plain_words

ROLE = content_root() / "roles" / "preflight"


def _filters() -> ModuleType:
    path = ROLE / "filter_plugins" / "pdctl_fitness.py"
    specification = importlib.util.spec_from_file_location("pdctl_fitness", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


fitness = _filters()
DEBIAN = """\
pdctl: begin
pdctl: kernel Linux
pdctl: machine b0075a1e pid:[1] net:[2] n1
pdctl: os PRETTY_NAME "Debian GNU/Linux 12 (bookworm)"
pdctl: os ID debian
pdctl: python 3.11 python3
pdctl: disk / / 900000 50000 60000 rw,relatime
pdctl: disk /tmp /tmp 900000 50000 60000 rw,nosuid
pdctl: end
"""


def _unfit(printed: str) -> str:
    said: str = fitness.pdctl_unfit(printed, ["python3"], "3.8", ["Debian", "RedHat"], 64, 200)
    return said


def test_a_node_that_fits_gets_no_word() -> None:
    assert _unfit(DEBIAN) == ""
    assert _unfit("Welcome to rack 甲\n" + DEBIAN.replace("\n", "\r\n")) == ""


@pytest.mark.parametrize(
    ("was", "is_now", "said"),
    [
        pytest.param("kernel Linux", "kernel FreeBSD", "runs FreeBSD, not Linux", id="kernel"),
        pytest.param('(bookworm)"\npdctl: os ID debian', '"\npdctl: os ID alpine', "of none of the families", id="os"),
        pytest.param("python 3.11 python3", "python 3.6 python3", "Python 3.6 (python3) is below 3.8", id="old-python"),
        pytest.param("python 3.11 python3", "python 2.7 python2", "Python 2.7 (python2) is below 3.8", id="python-2"),
        pytest.param(
            "python 3.11 python3",
            "broken python3: look: 12: python3: not found",
            "no Python works on this node: python3: python3: not found",
            id="none",
        ),
        pytest.param("rw,relatime", "ro,relatime", "/ is mounted read-only", id="read-only"),
        pytest.param("/tmp /tmp 900000", "/tmp /tmp 900", "/tmp has 0 MiB free, and 64 MiB are needed", id="full"),
        pytest.param("/tmp /tmp 900000 50000", "/tmp /tmp 900000 3", "/tmp has 3 inodes free", id="inodes"),
        pytest.param(
            "pdctl: disk /tmp /tmp",
            "pdctl: disk /etc /data 9 9 9 rw\npdctl: disk /tmp /tmp",
            "/etc (file system /data) has 0",
            id="where",
        ),
        pytest.param("pdctl: end\n", "", "stopped in the middle", id="cut"),
    ],
)
def test_one_fault_is_one_line_that_names_it(was: str, is_now: str, said: str) -> None:
    assert was in DEBIAN
    told = _unfit(DEBIAN.replace(was, is_now))
    assert said in told and "\n" not in told


def test_a_file_system_without_a_table_of_inodes_is_not_full_of_files() -> None:
    assert _unfit(DEBIAN.replace("900000 50000 60000", "900000 0 0")) == ""


def test_a_family_that_a_distribution_names_itself_after_counts() -> None:
    assert _unfit(DEBIAN.replace("os ID debian", 'os ID tencentos\npdctl: os ID_LIKE "rhel fedora centos"')) == ""


def test_a_login_that_runs_no_command_is_told_from_a_node_without_python() -> None:
    assert _unfit("This account is currently not available.\n") == (
        "its login shell runs no commands; it printed: This account is currently not available."
    )
    assert _unfit("") == "its login shell runs no commands; it printed: nothing"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"stdout": "1500\n"}, "the login `ops` is not root: use --become"),
        ({"stdout": "/bin/sh: 1: sudo: not found\n", "msg": "non-zero return code"}, "sudo is not installed"),
        ({"msg": "Missing sudo password"}, "asks the login `ops` for a password: give it with -K"),
        ({"stderr": "sudo: a password is required\n"}, "asks the login `ops` for a password"),
        ({"msg": "Incorrect sudo password"}, "sudo does not take the password"),
        ({"stdout": "ops is not in the sudoers file.\n"}, "may not use sudo on this node"),
        (
            {"stdout": "", "msg": "something else\nentirely"},
            "does not become root with --become: something else entirely",
        ),
        ({"stdout": "motd of the shell\r\n0\r\n"}, ""),
    ],
)
def test_why_a_login_is_not_root_is_said_in_one_line(result: dict[str, str], said: str) -> None:
    told = fitness.pdctl_no_root(result, "ops")
    assert (said in told and "\n" not in told) if said else told == ""


def test_one_machine_under_two_names_is_seen_and_a_copied_image_is_none() -> None:
    other = DEBIAN.replace("net:[2]", "net:[3]")
    unknown = DEBIAN.replace("b0075a1e pid:[1] net:[2] n1", "   n1")
    twins = fitness.pdctl_twins({"a": DEBIAN, "b": other, "c": DEBIAN, "d": "", "e": unknown, "f": unknown})
    assert twins == {"a": "c", "c": "a"}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_this_machine_says_all_of_it(shell: str) -> None:
    script = (ROLE / "files" / "look.sh").read_text(encoding="utf-8")
    done = subprocess.run([shell, "-c", script, "look", "python3"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    words = [line.split()[1] for line in done.stdout.splitlines()]
    assert words[0] == "begin" and words[-1] == "end" and {"kernel", "machine", "os", "python", "disk"} <= set(words)


CHANGED = """\
Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
The fingerprint for the ED25519 key sent by the remote host is
SHA256:x.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        pytest.param(CHANGED, "its host key is not the known one", id="changed"),
        pytest.param(
            "Failed to connect to the host via ssh: Host key verification failed.", "is not known here", id="unknown"
        ),
        pytest.param("ops@10.0.0.1: Permission denied (publickey,password).", "takes none of the keys", id="denied"),
        pytest.param("ssh: connect to host 10.0.0.1 port 22: Connection refused", "nothing listens", id="refused"),
        pytest.param("ssh: connect to host 10.0.0.1 port 22: Connection timed out", "no answer from", id="silent"),
        pytest.param("Connection timed out during banner exchange", "nothing answers there", id="slow"),
        pytest.param("Timeout, server 10.0.0.1 not responding.", "stopped answering in the middle", id="stalled"),
        pytest.param("ssh: Could not resolve hostname p1: Name or service not known", "does not resolve", id="name"),
        pytest.param("kex_exchange_identification: read: Connection reset by peer", "speaks no SSH", id="no-ssh"),
        pytest.param('Load key "/x/id": invalid format\nops@h: Permission denied (publickey).', "takes none", id="key"),
        pytest.param("", "no reason given", id="nothing"),
        pytest.param("something\nnew of ssh", "new of ssh", id="new"),
    ],
)
def test_what_ssh_says_becomes_one_line_that_keeps_its_words(said: str, meant: str) -> None:
    told = in_plain_words(said)
    assert meant in told and "\n" not in told and "@@@" not in told


@pytest.mark.parametrize("said", ["Connection timed out during banner exchange", "ssh: connect: Connection timed out"])
def test_a_deadline_that_passed_is_named(said: str) -> None:
    assert " within 7 s (ssh: " in in_plain_words(said, 7)
    assert "WITHIN" not in in_plain_words(said) and "ssh: ssh: " not in in_plain_words(said)
