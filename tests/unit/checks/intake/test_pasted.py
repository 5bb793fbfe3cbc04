"""Pasted text: prompts name the command, shapes name the tool, and what is left is listed."""

import time
from pathlib import Path

import pytest

from pdchecks.evidence import Evidence, read_blocks
from pdchecks.intake.pasted import read_pasted
from pdchecks.nodefacts import gather

DATA = Path(__file__).parents[3] / "data" / "readers"
# Outputs that say nothing without their command: a bare number, a name, a list of words.
MUTE = (
    "cat ",
    "cma_roce_tos",
    "modinfo",
    "ls ",
    "ping",
    "ib_write_bw",
    "dcb app show dev eth1",
    "uname -r",
    "rpm",
    "dpkg-query",
)


def _facts(text: str) -> set[str]:
    blocks, _ = read_pasted(text)
    return {type(fact).__name__ for fact in gather(Evidence("node", tuple(blocks))).facts}


def _outputs() -> list[tuple[str, str]]:
    blocks = [block for path in sorted(DATA.glob("*/*.txt")) for block in read_blocks(path.read_text(encoding="utf-8"))]
    return [
        (block.command, block.output)
        for block in blocks
        if not block.command.startswith(MUTE)
        and "| grep" not in block.command
        and "203.0.113.5" not in block.command
        and "not supported" not in block.output
        and "RTNETLINK" not in block.output
        and gather(Evidence("node", (block,))).facts
    ]


@pytest.mark.parametrize(("command", "output"), _outputs(), ids=lambda value: value[:40].replace("\n", " "))
def test_a_tools_output_is_known_by_its_shape_alone(command: str, output: str) -> None:
    (block,) = read_blocks(f"=== cmd: {command}\n{output}\n=== end\n")
    told = {type(fact).__name__ for fact in gather(Evidence("node", (block,))).facts}
    assert told <= _facts(output)


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ",
        "# ",
        "[root@node1 ~]# ",
        "[root@node1 infiniband]$ ",
        "user@node1:~/src$ ",
        "root@node1:/home/user# ",
        "(venv) user@node1:~$ ",
        "(base) [user@node1 ~]$ ",
        "node1# ",
        "bash-5.1# ",
        "+ ",
        "[root@node1 ~]# sudo ",
        "┌──(root㉿node1)-[~]\n└─# ",
        "╭─root@node1 ~/src ‹main›\n╰─$ ",
        "root@node1 ~/src main*\n❯ ",
        "root in 🌐 node1 in ~ via py\n❯ ",
        "➜  ~ ",
        "➜  src git:(main) ✗ ",
        "user@node1 ~ % ",
        "PS C:\\Users\\ops> ",
        "[node1]: PS /root> ",
        "C:\\>",
        "[10:15:32] root@node1:~# ",
        "10:15:32 [root@node1 ~]# ",
        "2026-11-30 10:15:32 root@node1:/root# ",
        "[10:15:32] # ",
        "\x1b[01;32muser@node1\x1b[00m:\x1b[01;34m~\x1b[00m$ ",
    ],
)
def test_the_command_after_a_prompt_is_the_blocks_command(prompt: str) -> None:
    blocks, left = read_pasted(f"{prompt}cma_roce_tos -d mlx5_0\n106\n{prompt}\n")
    assert [(block.command.removeprefix("sudo "), block.output) for block in blocks] == [
        ("cma_roce_tos -d mlx5_0", "106")
    ]
    assert left == []


def test_prompts_of_two_machines_make_two_nodes() -> None:
    blocks, _ = read_pasted("[root@p1 ~]# ulimit -n\n1024\n[root@d1 ~]# ulimit -n\n2048\n")
    assert [(block.node, block.output) for block in blocks] == [("p1", "1024"), ("d1", "2048")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("┌──(root㉿p1)-[~]\n└─# ", "┌──(root㉿d1)-[~]\n└─# "),
        ("╭─root@p1 ~\n╰─$ ", "╭─root@d1 ~\n╰─$ "),
        ("root@p1 ~\n❯ ", "root@d1 ~\n❯ "),
        ("root in p1 in ~\n❯ ", "root in d1 in ~\n❯ "),
        ("root@p1 ~ % ", "root@d1 ~ % "),
        ("10:15:32 root@p1:~# ", "10:16:05 root@d1:~# "),
        ("[10:15:32] [root@p1 ~]# ", "[10:16:05] [root@d1 ~]# "),
        ("PS C:\\> ssh root@p1 ", "PS C:\\> ssh root@d1 "),
        ("C:\\>ssh p1 ", "C:\\>ssh d1 "),
        ("$ ssh -o BatchMode=yes -l root p1 ", "$ ssh -p 22 d1 "),
        ("[p1]: PS /root> ", "[d1]: PS /root> "),
    ],
)
def test_themed_prompts_of_two_machines_make_two_nodes(first: str, second: str) -> None:
    blocks, left = read_pasted(f"{first}ulimit -n\n1024\n{second}ulimit -n\n2048\n")
    assert [(block.node, block.command, block.output) for block in blocks] == [
        ("p1", "ulimit -n", "1024"),
        ("d1", "ulimit -n", "2048"),
    ]
    assert left == []


def test_a_command_over_ssh_is_that_node_s_and_the_next_one_is_not() -> None:
    blocks, _ = read_pasted("root@p1:~# ssh d1 'ulimit -n'\n1024\nroot@p1:~# ulimit -n\n2048\n")
    assert [(block.node, block.output) for block in blocks] == [("d1", "1024"), ("p1", "2048")]
    blocks, _ = read_pasted("[root@p1 ~]# ulimit -n\n1\nPS C:\\> ulimit -n\n2\n[root@d1 ~]# ulimit -n\n3\n")
    assert [(block.node, block.output) for block in blocks] == [("p1", "1"), ("", "2"), ("d1", "3")]


def test_trees_that_tools_draw_are_no_prompts() -> None:
    text = "$ lsblk\nnvme0n1\n├─nvme0n1p1\n└─nvme0n1p2 259:2 0 1G\n$ ulimit -n\n1024\n"
    blocks, left = read_pasted(text)
    assert [block.command for block in blocks] == ["ulimit -n"]
    assert [(each.text, each.lines) for each in left] == [("lsblk", 3)]


def test_what_nobody_knows_is_listed_with_line_and_length() -> None:
    text = "Dear all,\nit does not work.\n\n$ frobnicate\nx\ny\n$ ibstat\nCA 'mlx5_0'\n\tCA type: MT4129\n"
    blocks, left = read_pasted(text)
    assert [block.command for block in blocks] == ["ibstat"]
    assert [(each.line, each.text, each.lines) for each in left] == [(1, "Dear all,", 2), (4, "frobnicate", 2)]


def test_prose_between_two_outputs_belongs_to_neither() -> None:
    text = (
        "driver: mlx5_core\nversion: 5.0-0\nfirmware-version: 22.31.1014 (MT_0000000359)\n\nand the other:\nprio text\n"
    )
    blocks, left = read_pasted(text)
    assert [block.command for block in blocks] == ["ethtool -i (interface not named)"]
    assert [(each.line, each.lines) for each in left] == [(5, 2)]


def test_logs_go_on_until_another_output_begins() -> None:
    text = (
        "[  12.345678] mlx5_core 0000:5e:00.0: mlx5_cmd_check:810:(pid 1): ALLOC_UAR(0x802) op_mod(0x0) failed, "
        "status limits exceeded(0x8), syndrome (0x8f1d14)\n  continued\n"
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n"
    )
    blocks, left = read_pasted(text)
    assert ([block.command for block in blocks], left) == (["log", "ibstat"], [])


def test_absence_in_a_filtered_excerpt_is_no_finding() -> None:
    from pdchecks.policy import read_layer, resolve
    from pdchecks.run import diagnose

    policy = resolve([read_layer(DATA.parents[2] / "roles" / "policy" / "files" / "policy.yml")])
    blocks, _ = read_pasted("     rx_prio3_bytes: 9\n     rx_prio3_packets: 1\n     tx_prio3_packets: 1\n")
    findings = diagnose([Evidence("node", tuple(blocks))], lambda node: policy)
    assert [finding for finding in findings if finding.topic == "qos.pfc"] == []


@pytest.mark.parametrize(
    "unit",
    [
        "a\n",
        "\n",
        "[\n",
        "{\n",
        "$ a\n",
        "x@y$ \n",
        "a: b\n",
        "[1.234]\n",
        "12: e: <UP> mtu 1\n",
        "[{\n",
        "0",
        "{",
        '"',
    ],
)
def test_the_worst_text_takes_bounded_time(unit: str) -> None:
    text = (unit * (1 << 18))[: 1 << 18]
    began = time.process_time()
    read_pasted(text)
    assert time.process_time() - began < 5
