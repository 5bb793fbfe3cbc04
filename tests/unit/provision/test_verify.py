"""What a role promises and the doctor does not see fails the host, once."""

import dataclasses

import pytest

from pdchecks.converge import converge
from pdchecks.finding import Finding, Severity, Status, Subject
from pdctl.content import content_root
from pdctl.provisioning.options import Options, selected_roles
from pdctl.provisioning.outcome import HostResult
from pdctl.provisioning.verify import judge

FAILED = Finding(
    check="PD-SYSCTL-001",
    topic="sysctl",
    status=Status.FAIL,
    severity=Severity.HIGH,
    subject=Subject("n1", "net.core.somaxconn"),
    summary="is 128, and the policy has 4096",
    cause="",
    evidence=(),
    verify=(),
    remedy=converge("sysctl", "Set it."),
    sources=(),
)


def _judged(*findings: Finding, **host: object) -> HostResult:
    node = HostResult("n1", "10.0.0.1", finished=True, **host)  # type: ignore[arg-type]
    judge(findings, {"n1": node}, {"sysctl", "limits"})
    return node


def test_a_failed_check_that_a_role_owns_is_a_problem_of_the_host() -> None:
    host = _judged(FAILED)
    assert host.status == "partly"
    assert [(p["role"], p["key"], p["outcome"]) for p in host.problems] == [
        ("sysctl", "PD-SYSCTL-001 net.core.somaxconn", "unproven")
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"status": Status.WARN},
        {"status": Status.PASS},
        {"remedy": None},
        {"remedy": converge("mtu", "Set it.")},
    ],
    ids=["a warning", "a pass", "no role mends it", "a role that did not run"],
)
def test_what_no_role_that_ran_promised_fails_nothing(other: dict[str, object]) -> None:
    assert _judged(dataclasses.replace(FAILED, **other)).problems == []  # type: ignore[arg-type]


def test_a_role_that_said_itself_what_it_could_not_do_is_not_asked_twice() -> None:
    own = {"role": "sysctl", "key": "net.core.somaxconn", "outcome": "refused", "message": "no"}
    assert _judged(FAILED, problems=[own]).problems == [own]


@pytest.mark.parametrize(
    ("tags", "skip", "ran"),
    [
        ((), (), {"locale", "safe_yum", "sysctl", "limits", "rdma"}),
        (("sysctl,limits",), (), {"sysctl", "limits"}),
        ((), ("rdma", "locale"), {"safe_yum", "sysctl", "limits"}),
        (("always",), (), set()),
    ],
)
def test_the_roles_that_run_are_told_by_their_tags(tags: tuple[str, ...], skip: tuple[str, ...], ran: set[str]) -> None:
    playbook = content_root() / "playbooks" / "provision.yml"
    found = selected_roles(Options(content_root(), playbook, tags=tags, skip_tags=skip))
    shared = {"locale", "safe_yum", "sysctl", "limits", "rdma"}
    assert found & shared == ran
    assert {"preflight", "guard", "backup", "verdict"} <= found
