"""Ansible's package modules and the bindings they import: the interpreter that runs them must have them."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.facts.host import AnsibleFailure, PythonModule
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# What ansible.builtin.dnf, dnf5, yum and apt import.
_BINDINGS = ("dnf", "libdnf5", "yum", "rpm", "apt", "apt_pkg")
_VERIFY = ("ansible HOST -m setup -a 'filter=ansible_pkg_mgr,ansible_python*'", "/usr/bin/python3 -c 'import dnf'")
_REMEDY = Remedy(
    "Use ansible.builtin.package, or dnf on EL8 and later and yum with Python 2 on EL7 only; let the interpreter "
    "be the "
    "system's, which has the bindings.",
    commands=(
        "ansible_python_interpreter=/usr/libexec/platform-python (EL8), /usr/bin/python3 (EL9), /usr/bin/python (EL7)",
        "dnf install python3-dnf",
    ),
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for failure in node.all(AnsibleFailure):
        if failure.kind == "pkg-backend":
            yield Verdict(
                Status.FAIL,
                f"package module on {failure.host}",
                f"the package module on {failure.host} found no bindings for its interpreter: {failure.detail[:160]}",
                "yum's bindings exist for Python 2 only, dnf's for the system's own Python 3; the module was run "
                "by another "
                "interpreter, or the wrong module was asked for.",
                (failure.quote,),
                _VERIFY,
                _REMEDY,
            )
    for module in node.all(PythonModule):
        if module.module not in _BINDINGS:
            continue
        if module.present:
            summary = f"{module.path} can import {module.module}"
            yield Verdict(Status.PASS, f"{module.module} bindings", summary, quotes=(module.quote,))
        else:
            yield Verdict(
                Status.WARN,
                f"{module.module} bindings",
                f"{module.path} cannot import {module.module}: {module.why[:160]}",
                "Ansible's package module needs the bindings in the interpreter that it runs with.",
                (module.quote,),
                _VERIFY,
                _REMEDY,
            )


CHECK = NodeCheck(
    id="PD-ANSIBLE-002",
    topic="ansible.pkg-backend",
    title="Package module without its bindings",
    severity=Severity.MEDIUM,
    tools=("python3", "platform-python"),
    sources=("https://github.com/ansible/ansible/issues/83032", "ansible-doc ansible.builtin.dnf, requirements"),
    need=Need.YUM,
    judge=judge,
)
