"""Folds Ansible's events into one result a host. Pure: no clock, no terminal, no disk."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pdctl.exit_codes import ExitCode, worst
from pdctl.provisioning.ssh_words import in_plain_words

VERDICT_ACTION = "pdctl_verdict"
# Of a problem: what was changed is as it was before.
REVERTED = "reverted"
LOCK_ACTION = "pdctl_lock"
ENGINES_ACTION = "pdctl_engines"
RESUMED = "pdctl_resumed"
SETTLED = "pdctl_settled"
# The outcome of a setting that the doctor does not see, whatever the role says.
UNPROVEN = "unproven"
_HELD = "guard_held"
_SAYS_NOTHING = ("non-zero return code", "MODULE FAILURE")
# What these do before the first other role changes no setting of a node.
_BEFOREHAND = {"", "python", "preflight", "policy", "guard", "confirm", "backup"}
_ARGUMENTS_ACTION = "ansible.builtin.validate_argument_spec"
_ROLLBACK_ACTION = "pdctl_rollback"


class Status(StrEnum):
    """How a host ended.

    REVERTED: every task ran, and the node undid at least one change by itself, since it was not reached again after it or fared
    worse. PARTLY: every task ran, and the node refused at least one setting. UNFIT: it was refused before anything was touched.
    INCOMPLETE: its tasks did not all get their turn. UNTOUCHED: none of them did.
    """

    OK = "ok"
    CHANGED = "changed"
    REVERTED = "reverted"
    PARTLY = "partly"
    FAILED = "failed"
    UNFIT = "unfit"
    UNREACHABLE = "unreachable"
    INCOMPLETE = "incomplete"
    UNTOUCHED = "untouched"


@dataclass(slots=True)
class Change:
    """One task that changed the host, or would (check mode).

    target: the file on the node, where the module names one. impact: of `Impact`, None where no role
    declares it. diff: as Ansible's modules give it.
    """

    role: str
    task: str
    target: str | None = None
    diff: list[Mapping[str, Any]] = field(default_factory=list)
    impact: str | None = None


@dataclass(slots=True)
class Failure:
    role: str
    task: str
    message: str


@dataclass(slots=True)
class HostResult:
    """One host. tasks: how many ran to an end on it, whether they changed it or not.

    held_by: who holds its lock, so that it was left alone. locked: it holds this run's lock. engines: active on it.
    spared: impacts of changes that were refused for their sake. unverified: why the doctor could not look at it
    after the run. settled: it had not drifted, and no task ran. touched: a role that may change it had begun.
    """

    name: str
    address: str
    tasks: int = 0
    changes: list[Change] = field(default_factory=list)
    problems: list[Mapping[str, Any]] = field(default_factory=list)
    notices: list[Mapping[str, Any]] = field(default_factory=list)
    failure: Failure | None = None
    unreachable: str | None = None
    finished: bool = False
    unverified: str | None = None
    settled: bool = False
    touched: bool = False
    held_by: str | None = None
    locked: bool = False
    engines: Sequence[str] = ()
    spared: Sequence[str] = ()
    refused: list[Mapping[str, Any]] = field(default_factory=list)

    def begin_again(self) -> None:
        """What an earlier try changed stays; how it ended does not count any more."""
        self.failure = self.unreachable = self.held_by = self.unverified = None
        self.problems, self.notices, self.refused, self.finished = [], [], [], False

    @property
    def status(self) -> Status:
        if self.held_by is not None:
            return Status.UNTOUCHED
        if self.unreachable is not None:
            return Status.UNREACHABLE
        if self.failure is not None:
            return Status.FAILED if self.touched or self.changes else Status.UNFIT
        if any(problem.get("outcome") == REVERTED for problem in self.problems):
            return Status.REVERTED
        if self.problems:
            return Status.PARTLY
        if not self.finished:
            return Status.INCOMPLETE if self.tasks else Status.UNTOUCHED
        return Status.CHANGED if self.changes else Status.OK


@dataclass(frozen=True, slots=True)
class Step:
    """What one event meant for one host, for whoever shows progress. text: one line, no terminal codes."""

    host: str
    word: str
    text: str


class Fold:
    """The state of all hosts while events come in; `step` says what is worth showing."""

    def __init__(
        self,
        hosts: Iterable[tuple[str, str]],
        impacts: Mapping[str, str] | None = None,
        timeout_s: int | None = None,
    ) -> None:
        """hosts: (name, address) of everything that the inventory and the limit select. impacts: by role.

        timeout_s: of each SSH connection attempt.
        """
        self._timeout_s = timeout_s
        self._impacts = impacts or {}
        self.hosts = {name: HostResult(name, address) for name, address in hosts}
        self.current: dict[str, str] = {}
        self.errors: list[str] = []

    def step(self, event: Mapping[str, Any]) -> Step | None:
        kind = event.get("event", "")
        data: Mapping[str, Any] = event.get("event_data") or {}
        if kind == "playbook_on_stats":
            self._finish(data)
            return None
        if kind == RESUMED:
            for name in event.get("hosts", ()):
                if name in self.hosts:
                    self.hosts[name].begin_again()
            return None
        if kind == SETTLED:
            return self._settled(self.hosts[str(event["host"])], str(event["run"]))
        if kind == "error":
            self.errors.append(str(event.get("stdout", "")))
        host = self.hosts.get(str(data.get("host", "")))
        if host is None:
            return None
        host.touched = host.touched or _touches(data)
        match kind:
            case "runner_on_start":
                self.current[host.name] = _where(data)
                # A failure that is followed by another task was rescued.
                host.failure = None
            case "runner_on_ok":
                return self._ok(host, data)
            case "runner_on_failed":
                return self._failed(host, data)
            case "runner_on_unreachable":
                host.unreachable = in_plain_words(_message(data), self._timeout_s)
                if (data.get("res") or {}).get("changed"):
                    # A change after which the node did not answer again.
                    host.changes.append(Change(str(data.get("role", "")), _task(data)))
                return Step(host.name, Status.UNREACHABLE, host.unreachable)
            case _:
                pass
        return None

    def _ok(self, host: HostResult, data: Mapping[str, Any]) -> Step | None:
        host.tasks += 1
        host.failure = None
        result = data.get("res") or {}
        match data.get("task_action"):
            case action if action == VERDICT_ACTION:
                self._end(host, result)
            case action if action == LOCK_ACTION:
                phase = ((result.get("invocation") or {}).get("module_args") or {}).get("phase")
                host.locked = phase == "begin"
            case action if action == ENGINES_ACTION:
                host.engines = tuple(map(str, result.get("engines", ())))
            case _:
                host.spared = (result.get("ansible_facts") or {}).get(_HELD, host.spared)
        if not result.get("changed"):
            return None
        impact = self._impacts.get(str(data.get("role", "")))
        if impact in host.spared:
            host.refused.append(_spared(host, data, result, impact))
            return Step(host.name, "refused", _where(data))
        diff = result.get("diff") or []
        change = Change(
            role=str(data.get("role", "")),
            task=_task(data),
            target=_target(result),
            impact=impact,
            diff=diff if isinstance(diff, list) else [diff],
        )
        host.changes.append(change)
        return Step(host.name, Status.CHANGED, _where(data))

    def _failed(self, host: HostResult, data: Mapping[str, Any]) -> Step | None:
        if data.get("ignore_errors"):
            return None
        host.tasks += 1
        result = data.get("res") or {}
        if data.get("task_action") == LOCK_ACTION and result.get("held_by"):
            host.held_by = _message(data)
            return Step(host.name, Status.UNTOUCHED, host.held_by)
        if data.get("task_action") == LOCK_ACTION:
            # It may have been taken before what an earlier run still does there outlasted our patience.
            host.locked = True
        if data.get("task_action") == VERDICT_ACTION and result.get("problems"):
            self._end(host, result)
            return Step(host.name, host.status, f"{len(host.problems)} setting(s) refused or reverted")
        host.failure = Failure(str(data.get("role", "")), _task(data), _message(data))
        return Step(host.name, host.status, f"{_where(data)}: {host.failure.message.splitlines()[0]}")

    def _settled(self, host: HostResult, run: str) -> Step:
        message = f"as run {run} left it"
        host.finished = host.settled = True
        host.notices = [{"role": "backup", "key": "drift", "message": f"none: {message}"}]
        return Step(host.name, Status.OK, message)

    def _end(self, host: HostResult, result: Mapping[str, Any]) -> None:
        """The verdict is the last task of all. A role that ran as a check says of itself only what it would change."""
        only_checked = {problem["role"] for problem in host.refused}
        told = [problem for problem in result.get("problems", ()) if problem.get("role") not in only_checked]
        host.problems = [*host.refused, *told]
        host.notices = list(result.get("notices", ()))
        host.finished = True

    def _finish(self, stats: Mapping[str, Any]) -> None:
        for name in stats.get("processed", {}):
            if name in self.hosts:
                self.hosts[name].finished = True


def exit_code(hosts: Iterable[HostResult], *, check: bool, interrupted: bool) -> ExitCode:
    """One code for all hosts, by `exit_codes.worst`.

    A check changes nothing, so a host that fails in it leaves the plan incomplete rather than the node half done.
    """
    codes = [ExitCode.INTERRUPTED] if interrupted else []
    for host in hosts:
        match host.status:
            case Status.FAILED:
                codes.append(ExitCode.INCOMPLETE if check else ExitCode.FAILED)
            case Status.PARTLY | Status.REVERTED:
                codes.append(ExitCode.PARTLY)
            case _ if host.unverified is not None:
                codes.append(ExitCode.INCOMPLETE)
            case Status.UNFIT | Status.UNREACHABLE | Status.INCOMPLETE | Status.UNTOUCHED:
                codes.append(ExitCode.PARTLY if host.changes and not check else ExitCode.INCOMPLETE)
            case _:
                pass
    return worst(codes)


def _touches(data: Mapping[str, Any]) -> bool:
    """Of what a task belongs to: a role that may change a setting. Its arguments are proven before it begins."""
    action = data.get("task_action")
    return action == _ROLLBACK_ACTION or ((data.get("role") or "") not in _BEFOREHAND and action != _ARGUMENTS_ACTION)


def _spared(host: HostResult, data: Mapping[str, Any], result: Mapping[str, Any], impact: str | None) -> dict[str, Any]:
    message = (
        f"{', '.join(host.engines)} is active here, and the impact of `{_task(data)}` is {impact}: --while-serving"
    )
    key = _target(result) or _task(data)
    return {"role": str(data.get("role", "")), "key": key, "outcome": "refused", "message": message}


def _where(data: Mapping[str, Any]) -> str:
    role = data.get("role")
    return f"{role} : {_task(data)}" if role else _task(data)


def _task(data: Mapping[str, Any]) -> str:
    return str(data.get("task") or data.get("name") or "")


def _target(result: Mapping[str, Any]) -> str | None:
    """In check mode a result has no `dest`, but it repeats what the module was asked."""
    asked = (result.get("invocation") or {}).get("module_args") or {}
    target = asked.get("dest") or asked.get("path")
    return str(target) if target else None


def _message(data: Mapping[str, Any]) -> str:
    """The part of a result that says why, without Ansible's chain of wrappers."""
    result = data.get("res") or {}
    for key in ("msg", "stderr", "module_stderr", "stdout", "module_stdout"):
        text = result.get(key)
        if text in _SAYS_NOTHING and (result.get("stderr") or result.get("stdout")):
            continue
        if isinstance(text, list):
            text = "\n".join(str(line) for line in text)
        if text:
            return str(text).strip().removeprefix("Task failed: ").removeprefix("Module failed: ")
    return "no reason given"
