"""A redacted text holds no name and no secret, and says the same to the doctor."""

from ipaddress import IPv6Address
from pathlib import Path

import pytest

from pdchecks.evidence import by_node, read_blocks
from pdchecks.finding import Finding
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.redaction.redactor import Redactor
from pdchecks.run import diagnose

ROOT = Path(__file__).parents[4]
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])
DATA = ROOT / "tests" / "data"
FIXTURES = [*sorted((DATA / "checks").glob("*/*.txt")), DATA / "nodes" / "healthy-roce-node.txt"]
PLANTED = """\
=== cmd: journalctl -o short-iso
=== rc: 0
2026-11-30T10:00:00+0000 athena-gpu-17 kernel: mlx5_core 0000:5e:00.0: up
Nov 30 10:00:01 hermes sshd[12]: Accepted publickey for carol from 10.20.30.40 port 22
=== end
=== cmd: cat log
=== rc: 0
zeus01:812:900 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.20.30.41<0>
[root@apollo-7 ~]# hostname
export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrSt
api_key: "9f8e7d6c5b4a"
Authorization: Bearer abc.DEF-123_456
fetch https://carol:s3cr3t-pass@repo.internal.example.net/x
search lab.internal.example.net
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDcarolskeycarolskeycarol carol@laptop
ExecStart=/home/carol/run --password=correct-horse-battery
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAA
-----END OPENSSH PRIVATE KEY-----
=== end
=== cmd: nvidia-smi --query-gpu=index,serial,uuid --format=csv
=== rc: 0
index, serial, uuid
0, 1652823054321, GPU-5d8c1f8e-1b2a-4c3d-9e8f-0a1b2c3d4e5f
=== end
=== cmd: lspci -vvv
=== rc: 0
\t\t\t[SN] Serial number: MT2139X07654
=== end
=== cmd: ip addr show
=== rc: 0
2: eth0: <BROADCAST,UP> mtu 4200 qdisc mq state UP
    link/ether b8:ce:f6:12:ab:34 brd ff:ff:ff:ff:ff:ff
    inet 10.20.30.41/24 brd 10.20.30.255 scope global eth0
    inet6 2001:db8:aaaa:bbbb::41/64 scope global
=== end
"""
SECRETS = """
athena-gpu-17 hermes zeus01 apollo-7 carol 10.20.30.40 10.20.30.41 hf_AbCdEfGhIjKlMnOpQrSt 9f8e7d6c5b4a
abc.DEF-123_456 s3cr3t-pass internal.example.net AAAAC3NzaC1lZDI1NTE5 correct-horse-battery
b3BlbnNzaC1rZXktdjE 1652823054321 5d8c1f8e-1b2a-4c3d-9e8f-0a1b2c3d4e5f MT2139X07654 12:ab:34
2001:db8:aaaa:bbbb
""".split()  # noqa: SIM905


def _policy(node: str) -> Policy:
    return POLICY


def _redact(text: str, key: bytes = b"k" * 32) -> tuple[str, Redactor]:
    redactor = Redactor(key)
    redactor.learn(text)
    return redactor(text), redactor


def _told(findings: list[Finding], redactor: Redactor | None = None) -> list[tuple[str, str, str, str]]:
    clean = redactor or (lambda text: text)
    call = redactor.node if redactor is not None else clean
    return sorted(
        (
            finding.check,
            finding.status.value,
            call(finding.subject.node),
            # A column counts what stands before it in the line, and that may be a name.
            clean(finding.subject.object).rsplit(":", 1)[0 if finding.topic == "yum.repo-bytes" else -1],
        )
        for finding in findings
    )


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_redacted_evidence_gives_the_same_findings(path: Path) -> None:
    text = path.read_text(encoding="utf-8").partition("\n")[2]
    redacted, redactor = _redact(text)
    before = diagnose(by_node(read_blocks(text), "the-node"), _policy)
    after = diagnose(by_node(read_blocks(redacted), "the-node"), _policy)
    assert _told(after) == _told(before, redactor)


@pytest.mark.parametrize("secret", SECRETS)
def test_no_planted_name_or_secret_is_left(secret: str) -> None:
    assert secret in PLANTED
    assert secret not in _redact(PLANTED)[0]


def test_the_same_word_becomes_the_same_everywhere_and_the_shape_of_the_text_stays() -> None:
    redactor = Redactor(b"k" * 32)
    redactor.learn(PLANTED, ["athena-gpu-17"])
    other = redactor("ping athena-gpu-17.lab.internal.example.net (10.20.30.41)")
    name = redactor("athena-gpu-17")
    assert name in redactor(PLANTED)
    assert other.startswith(f"ping {name}.")
    assert redactor("10.20.30.41") in redactor(PLANTED)
    assert [block.command for block in read_blocks(redactor(PLANTED))] == [
        block.command for block in read_blocks(PLANTED)
    ]


def test_another_key_gives_other_numbers() -> None:
    assert (
        _redact("10.20.30.41 b8:ce:f6:12:ab:34", b"a" * 32)[0] != _redact("10.20.30.41 b8:ce:f6:12:ab:34", b"b" * 32)[0]
    )


def test_a_name_that_is_a_word_of_the_tools_takes_no_setting_away() -> None:
    redactor = Redactor(b"k" * 32)
    redactor.learn("", ["vm"])
    assert redactor("vm.nr_hugepages = 5") == "vm.nr_hugepages = 5"
    assert redactor.node("vm") != "vm"
    line = "Nov 30 10:00:01 vm kernel: x"
    assert redactor(line) == line.replace("vm", redactor.node("vm"))


@pytest.mark.parametrize("name", ["A", "0", "ib", "17"])
def test_a_name_of_a_letter_is_replaced_only_where_a_name_stands(name: str) -> None:
    redactor = Redactor(b"k" * 32)
    redactor.learn(f"=== cmd: {name}: ibstat\n", [name])
    assert redactor(f"Mtu : 1024[{name}] cat -{name} x") == f"Mtu : 1024[{name}] cat -{name} x"
    assert redactor(f"=== cmd: {name}: ibstat") == f"=== cmd: {redactor.node(name)}: ibstat"
    assert redactor.node(name) != name


def test_what_grep_joins_to_a_file_of_sysfs_is_replaced_like_the_same_elsewhere() -> None:
    redactor = Redactor(b"k" * 32)
    mapped = redactor("198.51.100.7")
    line = redactor("/sys/class/infiniband/mlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:c633:6407")
    path, gid = line.split(":", 1)
    assert path == "/sys/class/infiniband/mlx5_0/ports/1/gids/3"
    assert str(IPv6Address(gid).ipv4_mapped) == mapped
    for name, value in (("node_guid", "0c42:a103:0012:3456"), ("address", "0c:42:a1:12:34:56")):
        assert redactor(f"/sys/class/x/{name}:{value}") == f"/sys/class/x/{name}:{redactor(value)}"
        assert redactor(value) != value


@pytest.mark.parametrize(
    "text",
    [
        "6: enxb8cef612ab34: <BROADCAST> mtu 1500",
        "    altname enxb8cef612ab34",
        "Base MAC:              b8cef612ab34            16",
        "Base GUID: b8cef6030012ab34",
        "[sda] naa.5000c5000012ab34",
        "nvme-eui.363448305251234500253800b812ab34",
        "\t[V3] Vendor specific: 4a0c39f1aa5ced118000b8cef612ab34",
    ],
)
def test_a_number_without_joints_is_replaced_like_the_same_elsewhere(text: str) -> None:
    redactor = Redactor(b"k" * 32)
    mapped = redactor("b8:ce:f6:12:ab:34").replace(":", "")[6:]
    assert mapped in redactor(text)
    assert "12ab34" not in redactor(text)


def test_a_redactor_is_quick_on_long_texts() -> None:
    import time

    for unit in (
        "a",
        "1.",
        "ab:",
        "0" * 5 + ":",
        "-",
        "serial ",
        "token=",
        "Bearer ",
        "eyJ",
        " \n",
        "x@y:",
        "curl ",
        "_KEY=",
        "--a-",
        "://a",
        "GUID ",
    ):
        text = (unit * 100_000)[:100_000]
        began = time.process_time()
        _redact(text)
        assert time.process_time() - began < 5, unit


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
        ('"password": "hunter"', "hunter"),
        ("run --token abc123def", "abc123def"),
        ("machine x login y password tr0ub4dor", "tr0ub4dor"),
        ("ansible_become_password: swordfish", "swordfish"),
        ("mail to carol.smith@corp.example.com now", "carol.smith"),
        ("[    0.0] Command line: ro rd.iscsi.in.password=swordfish ipmi.pw=calvin2", "swordfish"),
        ("[    0.0] Command line: ro ipmi.pw=calvin console=ttyS0", "calvin"),
        ("Environment=PGPASSWORD=swordfish", "swordfish"),
        ("Environment=DB_PASS=swordfish MYSQL_PWD=x", "swordfish"),
        ("Environment=MYSQL_PWD=swordfish", "swordfish"),
        ("rd.iscsi.password=12345678", "12345678"),
        ("http://ks:87654321@10.1.2.3/ks.cfg", "87654321"),
        ("https://tok3n1234@repo/x", "tok3n1234"),
        ("WANDB_KEY=0123456789abcdef0123456789abcdef", "0123456789abcdef"),
        ("AccountName=a;AccountKey=Zm9vYmFyYmF6==;EndpointSuffix=x", "Zm9vYmFyYmF6"),
        ("non-default args: {'api_key': ['sw0rdfish-key']}", "sw0rdfish-key"),
        ("vllm serve --hf-token sw0rdfish --port 8000", "sw0rdfish"),
        ("sshpass -p sw0rd ssh n1", "sw0rd"),
        ("ipmitool -I lanplus -H 10.0.0.1 -U ADMIN -P calvin chassis status", "calvin"),
        ("curl -s -u alice:sw0rdfish https://x", "sw0rdfish"),
        ("https://hooks.slack.com/services/T0000/B0000/XXXXabcdEF", "XXXXabcdEF"),
        ("    Serial Number                         : 1650522034567", "1650522034567"),
        ("MASTER_ADDR=athena-01", "athena-01"),
        ("Nov 30 10:00:00 n1 sudo[4]:    carol : TTY=pts/0", "carol"),
    ],
)
def test_a_secret_is_known_by_where_it_stands(line: str, secret: str) -> None:
    assert secret not in _redact(line)[0]


@pytest.mark.parametrize(
    "line",
    [
        "sudo: a password is required",
        "token: none",
        "2026-11-30 10:00:00,123 ERROR nixl: Failed to register memory",
        "max_tokens=4096",
        "secret: true",
        "password: $PASSWORD",
        "PWD=/home",
        "OLDPWD=/root",
        "TLS_KEY=/etc/pki/tls/key.pem",
        "NCCL_IB_PKEY=65535",
        "token=151643",
        "VLLM_HOST=enabled",
        "PASS=12",
        "vllm serve --max-num-batched-tokens 8192",
    ],
)
def test_words_of_the_tools_stay(line: str) -> None:
    assert _redact(line)[0] == line


def test_a_weak_secret_takes_no_word_away_elsewhere() -> None:
    text, _ = _redact("password: state\nlink mlx5_0/1 state ACTIVE")
    assert text.endswith("link mlx5_0/1 state ACTIVE")


@pytest.mark.parametrize(
    ("line", "secrets"),
    [
        ("docker login -u carol -p hunter2 registry.example.net", ["hunter2"]),
        ("sudo podman --log-level debug login registry.example.net -p 'hunter2'", ["hunter2"]),
        ("docker login -phunter2", ["hunter2"]),
        ("> Cookie: session=abcdef; theme=dark", ["abcdef", "dark"]),
        ("Set-Cookie: sid=a1B2c3D4; Path=/; HttpOnly", ["a1B2c3D4"]),
        ('{"cookie": "sid=zyxwv"}', ["zyxwv"]),
        ("curl -b 'sid=zyxwv' http://10.0.0.1/", ["zyxwv"]),
        ("git clone https://carol:p%40ss@git.example.net/x", ["p%", "40ss"]),
        ("git clone https://carol:p%40ssw0rd@git.example.net/x", ["p%", "40ss"]),
        ("proxy = carol:p%40ss@proxy.example.net:3128", ["p%", "40ss"]),
        ("http_proxy=http://carol:pa@s1,s@proxy.example.net:3128", ["pa@", "s1"]),
        ("carol:pa!s@proxy", ["pa!"]),
        (
            "lrwxrwxrwx 1 root root 13 nvme-SAMSUNG_MZQL2960HCJR-00A07_S64FNE0R123456 -> ../../nvme0n1",
            ["S64FNE0R123456"],
        ),
        ("/dev/disk/by-id/nvme-Samsung_SSD_980_PRO_1TB_S5GXNX0T123456A_1-part1", ["S5GXNX0T123456A"]),
        ("/dev/disk/by-id/nvme-INTEL_SSDPE2KX010T8_PHLJ123456781P0FGN", ["PHLJ123456781P0FGN"]),
        ("ata-ST4000NM0035-1V4107_ZC12ABCD-part2 -> ../../sda2", ["ZC12ABCD"]),
        ("scsi-35000c500a1b2c3d4", ["5000c500a1b2c3d4"]),
        (
            "/dev/nvme0n1          /dev/ng0n1            S64FNE0R123456       SAMSUNG MZQL2960HCJR-00A07",
            ["S64FNE0R123456"],
        ),
        ("nqn.2014.08.org.nvmexpress:144d144dS64FNE0R123456      SAMSUNG MZQL2", ["S64FNE0R123456"]),
    ],
)
def test_what_opens_something_or_tells_a_disk_goes_with_all_of_its_parts(line: str, secrets: list[str]) -> None:
    redacted = _redact(line)[0]
    assert [secret for secret in secrets if secret in redacted] == []


@pytest.mark.parametrize(
    "line",
    [
        "vllm/vllm-openai:v0.11.0@sha256:0123456789abcdef",
        "rdma-load-modules@rdma.service loaded active exited",
        "net.ipv4.tcp_syncookies = 1",
        "nvme-pci 0000:01:00.0 enabled",
        "docker run -p 8000:8000 vllm",
        "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE",
    ],
)
def test_what_only_looks_so_stays(line: str) -> None:
    assert _redact(line)[0] == line
