"""Bytes above 0x7f in the configuration of yum and dnf: pasted quotes and no-break spaces that stop Python 2."""

import shlex
import unicodedata
from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.host import CodecFailure, NonAsciiByte, RepoScan
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.repository_text import from_repository

_VERIFY = ("grep -nP '[^\\x00-\\x7F]' /etc/yum.conf /etc/yum.repos.d/*.repo",)
# First bytes in UTF-8 of what people paste: U+00A0, U+2018 to U+201D.
_PASTED = {
    0xC2: "a no-break space or another sign of U+0080 to U+00BF",
    0xE2: "a curly quote or a dash of U+2000 to U+2FFF",
}

# What a web page, a chat or a word processor makes of an ASCII sign; within sed's single quotes an apostrophe is written
# by its number.
_TWINS = {
    "\u00a0": " ",
    "\u202f": " ",
    "\u2010": "-",
    "\u2011": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2018": "\\x27",
    "\u2019": "\\x27",
    "\u201c": '"',
    "\u201d": '"',
    "\u200b": "",
    "\ufeff": "",
}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    bad = [fact for fact in node.all(NonAsciiByte) if not fact.comment]
    for fact in node.all(NonAsciiByte):
        yield _comment(fact) if fact.comment else _byte(fact)
    for failure in node.all(CodecFailure):
        if not bad and from_repository(failure, node):
            yield _failure(failure)
    for scan in node.all(RepoScan):
        yield Verdict(Status.PASS, scan.paths, f"{scan.paths}: ASCII only", quotes=(scan.quote,))


def _byte(fact: NonAsciiByte) -> Verdict:
    where = f"{fact.path}:{fact.line}:{fact.column}"
    return Verdict(
        Status.FAIL,
        where,
        f"{where} holds the byte 0x{fact.byte:02x}",
        f"It starts {_PASTED.get(fact.byte, 'a character outside ASCII')}. Python 2 yum mixes it with a "
        "translated message "
        "and stops with UnicodeDecodeError; another locale does not cure it.",
        (fact.quote,),
        _VERIFY,
        _remedy(fact),
    )


def _remedy(fact: NonAsciiByte) -> Remedy:
    path = shlex.quote(fact.path)
    show = f"sed -n '{fact.line}p' {path} | cat -A"
    if fact.character not in _TWINS:
        return Remedy("Type that character again in ASCII.", commands=(show,))
    found = "".join(f"\\x{byte:02x}" for byte in fact.character.encode())
    name = unicodedata.name(fact.character, "that character").lower()
    return Remedy(
        f"In that line, put the ASCII sign in the place of the {name}; delete it where it belongs to no value.",
        commands=(show, f"LC_ALL=C sed -i '{fact.line}s/{found}/{_TWINS[fact.character]}/g' {path}"),
    )


def _comment(fact: NonAsciiByte) -> Verdict:
    where = f"{fact.path}:{fact.line}:{fact.column}"
    summary = f"{where} holds the byte 0x{fact.byte:02x}, in a comment: yum does not read it"
    return Verdict(Status.INFO, where, summary, quotes=(fact.quote,))


def _failure(failure: CodecFailure) -> Verdict:
    byte = f"0x{failure.byte:02x}" if isinstance(failure.byte, int) else "above 0x7f"
    return Verdict(
        Status.FAIL,
        "package manager configuration",
        f"{failure.program} stopped at a byte {byte} that comes from a .repo file",
        f"The statement that stopped handles a value of a repository: {failure.statement}",
        (failure.quote,),
        _VERIFY,
        Remedy("Find the byte and type it again in ASCII; until then disable that repository.", commands=_VERIFY),
    )


CHECK = NodeCheck(
    id="PD-YUM-001",
    topic="yum.repo-bytes",
    title="Non-ASCII bytes in repository files",
    severity=Severity.HIGH,
    tools=("grep", "yum"),
    sources=("https://github.com/RedhawkSDR/redhawk/issues/4", "Python 2 Unicode HOWTO, implicit ASCII decoding"),
    need=Need.YUM,
    judge=judge,
)
