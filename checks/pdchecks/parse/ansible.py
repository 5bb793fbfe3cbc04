"""Ansible's own failures on a target: a Python too old for the controller, a package module without its bindings."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import AnsibleFailure
from pdchecks.parse.reader import Reader, looks_like, mentions
from pdchecks.unknown import Unknown

_NO_HOST = "(host not named)"
_HOST = re.compile(
    r"^(?:fatal: \[(?P<fatal>[^\]]{1,100})\]|(?P<host>\S{1,100}) \| (?:FAILED|UNREACHABLE)!)", re.MULTILINE
)
_TARGET_PYTHON = re.compile(
    r"SyntaxError: future feature annotations is not defined"
    r"|ansible-core requires a minimum of Python(?:2 version [\d.]+ or Python3)? version [\d.]+\. Current version: [^\"\\]{1,40}"
    r"|SyntaxError: invalid syntax.{0,40}(?:from __future__|async|:=)"
)
_NO_PYTHON = re.compile(
    r"(?<![\w./-])/[\w./-]{0,200}python[\d.]{0,8}: (?:not found|No such file or directory|command not found)"
    r"|No python interpreters found for host[^\"\n]{0,120}"
    r"|you probably need to set the interpreter"
)
_BACKEND = re.compile(
    r"The Python 2 (?:yum|bindings for rpm)[^\"\n]{0,60}(?:module|needed)[^\"\n]{0,160}"
    r"|Could not import the dnf python module[^\"\n]{0,160}"
    r"|python[23]?-(?:dnf|apt|yum) (?:must be installed|is needed)[^\"\n]{0,120}"
    r"|Could not detect which major revision of yum is in use[^\"\n]{0,160}"
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    hosts = [(match.start(), match["fatal"] or match["host"]) for match in _HOST.finditer(block.output)]
    for kind, pattern in (
        ("target-python", _TARGET_PYTHON),
        ("no-python", _NO_PYTHON),
        ("pkg-backend", _BACKEND),
    ):
        for match in pattern.finditer(block.output):
            host = next((name for start, name in reversed(hosts) if start <= match.start()), _NO_HOST)
            facts.append(AnsibleFailure(quote=block.quote(match[0]), kind=kind, host=host, detail=match[0]))
    # Ansible prints the exception once before it says of which host it is.
    named = {fact.kind for fact in facts if isinstance(fact, AnsibleFailure) and fact.host != _NO_HOST}
    return [
        fact
        for fact in facts
        if not (isinstance(fact, AnsibleFailure) and fact.host == _NO_HOST and fact.kind in named)
    ]


def _claims(block: Block) -> bool:
    return mentions(block, "ython", "yum", "future feature", "nvalid syntax", "interpreter") and any(
        looks_like(block, shape) for shape in (_TARGET_PYTHON, _NO_PYTHON, _BACKEND)
    )


READER = Reader("ansible", _claims, parse, events=True)
