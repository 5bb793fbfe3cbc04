"""Which lines a shell's prompt begins: the command behind it, and the node where the prompt names one."""

import re
from typing import NamedTuple

_ENVIRONMENT = r"(?:\([\w.-]{1,40}\) ?)?"
_HOST = r"(?P<host>[\w.-]{1,64})"
_STAMP = r"\[?(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?\]? "
_BRACKETS = rf"{_ENVIRONMENT}\[[\w.-]{{1,64}}@{_HOST}[^\]]{{0,200}}\] ?[#$%] ?(?P<command>.*)"
_PROMPTS = (
    # [root@node1 ~]# ibstat
    re.compile(rf"(?:{_STAMP})?{_BRACKETS}"),
    # user@node1:~/src$ ibstat
    re.compile(rf"{_ENVIRONMENT}[\w.-]{{1,64}}@{_HOST}(?::[^#$%>]{{0,200}})? ?[#$%>] ?(?P<command>.*)"),
    # 10:15:32 user@node1:~$ ibstat, and zsh's user@node1 ~ % ibstat: a folder tells them from a line of a log.
    re.compile(
        rf"(?:{_STAMP})?{_ENVIRONMENT}[\w.-]{{1,64}}@{_HOST}(?::| )[~/][^#$%>\s]{{0,200}} ?[#$%>❯](?: (?P<command>.*))?"
    ),
)
# PS C:\> ssh node1 ibstat; [node1]: PS /root> ibstat; C:\>ssh node1 ibstat. Without a name it is no node that was named before.
_WINDOWS = re.compile(
    rf"(?:\[{_HOST}\]: )?(?:PS (?:[A-Za-z]:\\|[~/])[^>]{{0,200}}>|[A-Z]:\\[^>\s]{{0,200}}>(?=\S|$)) ?(?P<command>.*)"
)
# The upper line of two: ┌──(root㉿node1)-[~], ╭─root@node1 ~, root@node1 ~/src main, root in node1 in ~.
_UPPER = re.compile(
    rf"[┌╭][─━]{{0,4}}[(\[]?[\w.-]{{1,64}}(?:[@㉿💀]| at | in ){_HOST}(?:[\s)\]:].{{0,300}})?"
    rf"|(?:{_STAMP})?[\w.-]{{1,64}}(?:@| in (?:\S )?){_HOST.replace('host', 'host2')}(?: in|:)? ?[~/].{{0,300}}"
)
_LOWER = re.compile(r"(?:[└╰][─━]{0,4}[➤>$#%❯»λ]{1,2}|[❯➤»λ]{1,3})(?: (?P<command>.*))?")
# oh-my-zsh: ➜  ~ ibstat, ➜  src git:(main) ✗ ibstat
_ARROW = re.compile(r"➜ {1,2}\S{1,100}(?: git:\(\S{1,100}\))?(?: ✗)?(?: (?P<command>.*))?")
# $ ibstat, # ibstat, + ibstat, node1# ibstat, ~ # ibstat: only before a command that tools of ours have, or `$` before any.
_BARE = re.compile(
    rf"(?:{_STAMP})?"
    r"(?P<mark>[$#%+]|bash-[\d.]{1,8}[#$]|[\w.-]{1,64}[#>]|[~/][\w./-]{0,200} ?[#$]) (?P<command>\S.{0,2000})"
)
_EMPTY = re.compile(rf"(?:{_STAMP})?" r"(?:[$#%]|bash-[\d.]{1,8}[#$]|[\w.-]{1,64}#|[~/][\w./-]{0,200} ?[#$]) ?|\+ ")
_WORD = re.compile(
    r"(?:(?:sudo|time|env|timeout \S{1,10}|LC_ALL=\S{1,40}|LANG=\S{1,40})\s+(?:-\w\s+)?)*(?P<tool>\S{1,200})"
)
# ssh root@node1 ibstat: what is printed is that node's. Only options that are sure to take a word, or none.
_SSH = re.compile(
    r"ssh(?:\.exe)? (?:-[46AaCfgKkMNnqTtVvXxYy]{1,8} |-[bcDEeFIiJLlmOopQRSWw] ?\S{1,200} ){0,12}"
    r"(?:[\w.-]{1,64}@)?(?P<host>[A-Za-z0-9][\w.-]{0,63}) (?P<quote>[\"']?)(?P<command>\S.{0,2000}?)(?P=quote)"
)
_TOOLS = frozenset(
    """
    ansible-playbook cat cd chronyc cma_roce_mode cma_roce_tos dcb devlink dmesg dnf docker echo
    egrep env ethtool flint for free getent grep head ib_read_bw ib_send_bw ib_write_bw ib_write_lat
    arp ibdev2netdev ibstat ibstatus ibv_devices ibv_devinfo ifconfig ip journalctl kubectl lldpcli lldpctl lldptool
    locale ls lsmod lspci lsof mlnx_qos mlxconfig mlxlink modinfo modprobe mst mstconfig mstflint
    numactl nvidia-smi ofed_info perfquery ping printenv ps python python3 rdma rping show_gids ss ssh sysctl
    systemctl tail tc timedatectl top tracepath ucx_info ulimit uname vllm yum
    """.split()  # noqa: SIM905
)
_MARKS = re.compile(r"[#$%>+❯➜➤»λ] ?")


class Prompt(NamedTuple):
    """command: empty where the line is a prompt alone. shell: whose prompt it is; None where it names nobody, so that it is
    the one before it, and empty for a machine that is no node. node: on which the command ran, where that is another.
    """

    command: str
    shell: str | None
    node: str | None = None


def prompt(line: str) -> Prompt | None:
    """None for a line that no prompt begins."""
    if not _MARKS.search(line):
        return None
    found = _found(line)
    if found is None or not (through := _SSH.fullmatch(found.command)):
        return found
    return Prompt(through["command"].strip(), found.shell, through["host"])


def _found(line: str) -> Prompt | None:
    for pattern in _PROMPTS:
        if match := pattern.fullmatch(line):
            return Prompt((match["command"] or "").strip(), match["host"])
    if match := _WINDOWS.fullmatch(line):
        return Prompt(match["command"].strip(), match["host"] or "")
    if match := _LOWER.fullmatch(line) or _ARROW.fullmatch(line):
        return Prompt((match["command"] or "").strip(), None)
    bare = _BARE.fullmatch(line)
    if bare is None:
        return None
    word = _WORD.match(bare["command"])
    known = word is not None and word["tool"].rsplit("/", 1)[-1] in _TOOLS
    return Prompt(bare["command"].strip(), None) if known or bare["mark"] == "$" else None


def upper_line(line: str, below: str) -> str | None:
    """The node that the first line of a prompt of two lines names. below: the next line."""
    if not _LOWER.fullmatch(below):
        return None
    match = _UPPER.fullmatch(line)
    return (match["host"] or match["host2"]) if match else None


def is_empty(line: str) -> bool:
    """Whether it is a prompt without a name, with nothing behind it."""
    return _EMPTY.fullmatch(line) is not None
