"""The Python of a node that Ansible is to manage: too old for the controller, or none."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.host import AnsibleFailure, PythonVersion
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# Target Python of ansible-core 2.19, which pdctl provisions with; ansible-core support matrix.
_OLDEST = (3, 8)
_REMEDY = Remedy(
    "`pdctl provision` takes such a node to ansible-core 2.16, the last that speaks to Python 2.7 and 3.6, by itself. With an "
    "Ansible of your own: use that version, or give the node a newer Python and name it in ansible_python_interpreter.",
    commands=(
        "dnf install python3.12 && ansible_python_interpreter=/usr/bin/python3.12 (EL8: without dnf's bindings)",
        "pip install 'ansible-core==2.16.*' (in a virtual environment of its own)",
    ),
)
_VERIFY = ("ansible HOST -m raw -a 'python3 -V; /usr/libexec/platform-python -V'", "ansible --version")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for failure in node.all(AnsibleFailure):
        if failure.kind == "target-python":
            yield Verdict(
                Status.FAIL,
                f"Python of {failure.host}",
                f"Ansible's module could not run on {failure.host}: its Python is older than the controller's Ansible "
                f"takes ({failure.detail[:200]})",
                "ansible-core 2.17 and later need Python 3.7 on the target, 2.18 and later 3.8; Python 3.6 (EL8's own) "
                "and 2.7 (EL7) end with ansible-core 2.16. The SyntaxError about annotations is how an older Python "
                "says so.",
                (failure.quote,),
                _VERIFY,
                _REMEDY,
            )
        elif failure.kind == "no-python":
            yield Verdict(
                Status.FAIL,
                f"Python of {failure.host}",
                f"Ansible found no Python on {failure.host}: {failure.detail[:120]}",
                "Modules run in the node's Python; a minimal image has none, or has it at another path.",
                (failure.quote,),
                _VERIFY,
                Remedy(
                    "Install it with a raw command, or name its path in ansible_python_interpreter.",
                    commands=("ansible HOST -m raw -a 'apt-get install -y python3 || dnf install -y python3'",),
                ),
            )
    yield from _found(node)


def _found(node: NodeFacts) -> Iterator[Verdict]:
    versions = sorted(node.all(PythonVersion), key=lambda fact: fact.version)
    if not versions:
        return
    best = versions[-1]
    shown = ", ".join(f"{fact.path} is {_dotted(fact.version)}" for fact in versions)
    quotes = tuple(fact.quote for fact in versions)
    if best.version >= _OLDEST:
        yield Verdict(Status.PASS, "Python", shown, quotes=quotes)
        return
    yield Verdict(
        Status.FAIL,
        "Python",
        f"{shown}; Ansible needs {_dotted(_OLDEST)} or later here",
        f"pdctl provisions with ansible-core 2.19, whose modules need Python {_dotted(_OLDEST)} on the node; the last "
        "ansible-core for Python 3.6 and 2.7 is 2.16.",
        quotes,
        _VERIFY,
        _REMEDY,
    )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


CHECK = NodeCheck(
    id="PD-ANSIBLE-001",
    topic="ansible.target-python",
    title="Python too old for Ansible",
    severity=Severity.HIGH,
    tools=("python3", "platform-python"),
    sources=(
        "https://github.com/ansible/ansible/issues/82068",
        "https://github.com/ansible/ansible/issues/84787",
        "https://docs.ansible.com/ansible/latest/reference_appendices/release_and_maintenance.html",
    ),
    judge=judge,
)
