"""How events become the ending of a host, and endings one exit code."""

from collections.abc import Mapping
from typing import Any

import pytest

from pdctl.exit_codes import ExitCode
from pdctl.provisioning.outcome import Change, Failure, Fold, HostResult, Status, exit_code

PROBLEM = {"role": "sysctl", "key": "net.core.rmem_max", "outcome": "refused", "message": "no"}


def _event(kind: str, task: str = "t", action: str = "command", host: str = "n1", **fields: Any) -> Mapping[str, Any]:
    data = {"host": host, "task": task, "role": "r", "task_action": action, **fields}
    return {"event": f"runner_on_{kind}", "event_data": data}


def _stats(*hosts: str) -> Mapping[str, Any]:
    return {"event": "playbook_on_stats", "event_data": {"processed": dict.fromkeys(hosts, 1)}}


def _folded(*events: Mapping[str, Any]) -> HostResult:
    fold = Fold([("n1", "10.0.0.1")])
    for event in events:
        fold.step(event)
    return fold.hosts["n1"]


def test_a_host_whose_tasks_change_nothing_is_ok() -> None:
    assert _folded(_event("ok", res={"changed": False}), _stats("n1")).status is Status.OK


def test_a_change_keeps_its_task_file_and_diff() -> None:
    result = {"changed": True, "diff": {"before": "a", "after": "b"}, "invocation": {"module_args": {"dest": "/etc/x"}}}
    host = _folded(_event("ok", "write", res=result), _stats("n1"))
    assert host.status is Status.CHANGED
    assert host.changes == [Change("r", "write", "/etc/x", [{"before": "a", "after": "b"}])]


def test_a_failed_task_fails_the_host_with_its_reason() -> None:
    host = _folded(_event("failed", "go", res={"msg": "Task failed: Module failed: no space left"}), _stats("n1"))
    assert host.status is Status.FAILED
    assert host.failure == Failure("r", "go", "no space left")


BEFOREHAND = ("python", "preflight", "policy", "guard", "confirm", "backup")


@pytest.mark.parametrize("role", BEFOREHAND)
def test_a_node_that_is_refused_before_any_role_changes_it_is_unfit_and_nothing_was_done_there(role: str) -> None:
    before = [_event("ok", role=name, res={"changed": False}) for name in BEFOREHAND[: BEFOREHAND.index(role)]]
    host = _folded(*before, _event("failed", role=role, res={"msg": "no"}), _stats("n1"))
    assert (host.status, host.touched) == (Status.UNFIT, False)
    for check in (False, True):
        assert exit_code([host], check=check, interrupted=False) is ExitCode.INCOMPLETE


@pytest.mark.parametrize(
    "event",
    [
        _event("ok", role="locale", res={"changed": False}),
        _event("start", role="sysctl"),
        _event("ok", role="python", res={"changed": True}),
        _event("ok", role="backup", action="pdctl_rollback", res={"changed": False}),
    ],
    ids=["a role ran", "a role began", "a Python was installed", "a rollback"],
)
def test_a_refusal_after_something_may_have_been_changed_is_a_failure(event: Mapping[str, Any]) -> None:
    host = _folded(event, _event("failed", role="backup", res={"msg": "no"}), _stats("n1"))
    assert host.status is Status.FAILED
    assert exit_code([host], check=False, interrupted=False) is ExitCode.FAILED


def test_wrong_arguments_of_the_first_role_touch_nothing() -> None:
    action = "ansible.builtin.validate_argument_spec"
    host = _folded(_event("failed", role="locale", action=action, res={"msg": "wrong type"}), _stats("n1"))
    assert host.status is Status.UNFIT


def test_a_bare_return_code_gives_way_to_what_the_command_said() -> None:
    host = _folded(_event("failed", res={"msg": "non-zero return code", "stderr": "sudo: not found"}))
    assert host.failure is not None and host.failure.message == "sudo: not found"


def test_a_rescued_failure_is_none() -> None:
    rescued = [_event("failed", res={"msg": "no"}), _event("start", "rescue"), _event("ok", res={"changed": False})]
    assert _folded(*rescued, _stats("n1")).status is Status.OK


def test_an_ignored_failure_is_none() -> None:
    assert _folded(_event("failed", res={"msg": "no"}, ignore_errors=True), _stats("n1")).status is Status.OK


def test_a_refusal_in_the_verdict_is_partly_done_also_after_changes() -> None:
    verdict = _event("failed", action="pdctl_verdict", res={"msg": "1 setting", "problems": [PROBLEM], "notices": []})
    host = _folded(_event("ok", res={"changed": True}), verdict, _stats("n1"))
    assert host.status is Status.PARTLY
    assert host.problems == [PROBLEM]


def test_notices_of_a_clean_verdict_fail_nothing() -> None:
    notice = {"role": "rdma", "key": "ib_uverbs", "message": "none"}
    host = _folded(_event("ok", action="pdctl_verdict", res={"notices": [notice]}), _stats("n1"))
    assert (host.status, host.notices) == (Status.OK, [notice])


def test_an_unreachable_host_keeps_what_ssh_said() -> None:
    host = _folded(_event("unreachable", res={"msg": "No route to host"}), _stats("n1"))
    assert host.status is Status.UNREACHABLE
    assert host.unreachable is not None and "(ssh: No route to host)" in host.unreachable


def test_a_host_that_no_one_came_back_to_is_incomplete() -> None:
    assert _folded(_event("ok", res={"changed": True})).status is Status.INCOMPLETE


def test_events_of_other_hosts_and_kinds_are_no_one_s() -> None:
    fold = Fold([("n1", "10.0.0.1")])
    assert fold.step(_event("ok", host="localhost", res={"changed": True})) is None
    assert fold.step({"event": "verbose", "stdout": "x"}) is None
    assert fold.hosts["n1"].tasks == 0


def _host(status: Status, *, changed: bool = False) -> HostResult:
    begun = status is not Status.UNTOUCHED
    finished = begun and status is not Status.INCOMPLETE
    host = HostResult("n", "10.0.0.1", tasks=3 * begun, finished=finished, touched=begun and status is not Status.UNFIT)
    if changed or status is Status.CHANGED:
        host.changes.append(Change("r", "t"))
    if status in (Status.FAILED, Status.UNFIT):
        host.failure = Failure("r", "t", "no")
    if status is Status.PARTLY:
        host.problems.append(PROBLEM)
    if status is Status.UNREACHABLE:
        host.unreachable = "no"
    assert host.status is status
    return host


@pytest.mark.parametrize(
    ("statuses", "check", "code"),
    [
        ([Status.OK, Status.CHANGED], False, ExitCode.DONE),
        ([Status.OK, Status.UNREACHABLE], False, ExitCode.INCOMPLETE),
        ([Status.OK, Status.UNTOUCHED], False, ExitCode.INCOMPLETE),
        ([Status.OK, Status.UNFIT], False, ExitCode.INCOMPLETE),
        ([Status.UNREACHABLE, Status.UNFIT, Status.PARTLY], False, ExitCode.PARTLY),
        ([Status.UNREACHABLE, Status.PARTLY, Status.FAILED], False, ExitCode.FAILED),
        ([Status.INCOMPLETE], False, ExitCode.INCOMPLETE),
        ([Status.FAILED], True, ExitCode.INCOMPLETE),
        ([Status.CHANGED, Status.PARTLY], True, ExitCode.PARTLY),
    ],
)
def test_the_worst_ending_gives_the_exit_code(statuses: list[Status], check: bool, code: ExitCode) -> None:
    assert exit_code(map(_host, statuses), check=check, interrupted=False) is code


def test_a_node_lost_after_a_change_is_partly_done() -> None:
    lost = [_host(Status.UNREACHABLE, changed=True)]
    assert exit_code(lost, check=False, interrupted=False) is ExitCode.PARTLY
    assert exit_code(lost, check=True, interrupted=False) is ExitCode.INCOMPLETE


def test_an_interrupt_outweighs_all() -> None:
    assert exit_code([_host(Status.FAILED)], check=False, interrupted=True) is ExitCode.INTERRUPTED


def test_a_change_that_the_node_undid_is_reverted_and_partly_done() -> None:
    undone = {"role": "mtu", "key": "mtu", "outcome": "reverted", "message": "the node could not be reached"}
    host = _folded(
        _event("failed", action="pdctl_verdict", res={"problems": [PROBLEM, undone], "notices": []}), _stats("n1")
    )
    assert host.status is Status.REVERTED
    assert exit_code([host], check=False, interrupted=False) is ExitCode.PARTLY


def test_a_node_that_never_answered_again_after_a_change_was_changed() -> None:
    host = _folded(_event("unreachable", res={"msg": "not reached again", "changed": True}), _stats("n1"))
    assert (host.status, len(host.changes)) == (Status.UNREACHABLE, 1)
    assert exit_code([host], check=False, interrupted=False) is ExitCode.PARTLY


def _lock(phase: str, kind: str = "ok", **result: Any) -> Mapping[str, Any]:
    result = {"invocation": {"module_args": {"phase": phase}}, **result}
    return _event(kind, "lock", "pdctl_lock", res=result)


def test_a_node_that_another_run_holds_is_left_alone_and_says_who() -> None:
    host = _folded(_lock("begin", "failed", msg="run x of zhang holds this node", held_by={"run": "x"}), _stats("n1"))
    assert (host.status, host.held_by) == (Status.UNTOUCHED, "run x of zhang holds this node")
    assert exit_code([host], check=False, interrupted=False) is ExitCode.INCOMPLETE


def test_a_lock_that_is_not_freed_is_known() -> None:
    assert _folded(_lock("begin")).locked
    assert not _folded(_lock("begin"), _lock("end")).locked
    assert _folded(_lock("begin", "failed", msg="what run x began on this node still runs")).locked


HELD = {"changed": False, "ansible_facts": {"guard_held": ["restart-engine"]}}


def _spared(problems: list[Mapping[str, Any]]) -> HostResult:
    fold = Fold([("n1", "10.0.0.1")], {"limits": "restart-engine", "locale": "none"})
    verdict = {"role": "verdict", "res": {"msg": "x", "problems": problems, "notices": []}}
    for event in (
        _event("ok", action="pdctl_engines", res={"engines": ["pdctl-decode.service"]}),
        _event("ok", action="set_fact", res=HELD),
        _event("ok", "line", role="locale", res={"changed": True}),
        _event("ok", "write", role="limits", res={"changed": True, "invocation": {"module_args": {"dest": "/etc/l"}}}),
        _event("failed" if problems else "ok", action="pdctl_verdict", **verdict),
    ):
        fold.step(event)
    return fold.hosts["n1"]


def test_what_an_active_engine_would_feel_is_refused_by_name_and_the_rest_is_done() -> None:
    host = _spared([])
    assert [change.role for change in host.changes] == ["locale"]
    (problem,) = host.problems
    assert (problem["role"], problem["key"], problem["outcome"]) == ("limits", "/etc/l", "refused")
    assert "pdctl-decode.service" in problem["message"] and "--while-serving" in problem["message"]
    assert host.status is Status.PARTLY


def test_what_a_role_says_of_itself_while_it_only_checks_is_no_second_refusal() -> None:
    own = {"role": "limits", "key": "nofile", "outcome": "refused", "message": "live is 1"}
    assert [problem["key"] for problem in _spared([own, PROBLEM]).problems] == ["/etc/l", PROBLEM["key"]]


def test_a_host_whose_verdict_came_is_done_also_without_the_end_of_the_play() -> None:
    assert _folded(_event("ok", action="pdctl_verdict", res={"notices": []})).finished


def test_a_resumed_host_keeps_its_changes_and_begins_again() -> None:
    resumed = {"event": "pdctl_resumed", "hosts": ["n1", "stranger"]}
    lost = _event("unreachable", res={"msg": "No route to host"})
    host = _folded(_event("ok", res={"changed": True}), lost, _stats("n1"), resumed)
    assert (host.status, len(host.changes)) == (Status.INCOMPLETE, 1)


def test_a_host_that_has_not_drifted_is_ok_without_a_task() -> None:
    host = _folded({"event": "pdctl_settled", "host": "n1", "run": "r"})
    assert (host.status, host.tasks, host.settled) == (Status.OK, 0, True)


def test_a_converged_host_that_the_doctor_did_not_see_is_incomplete() -> None:
    host = _host(Status.CHANGED)
    host.unverified = "no answer"
    assert exit_code([host], check=False, interrupted=False) is ExitCode.INCOMPLETE
