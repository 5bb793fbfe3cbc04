"""Makes a change that can cut a node off: the node is armed to undo it by itself, and disarmed over a new connection.

The work on the node is done by two modules. The one that the task names looks: it says which commands make the change and
which undo it, and later, when all is confirmed, it records the change for the next boot. `pdctl_change` does the rest.
"""

import contextlib
import json
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# Kept of the window, so that the word that disarms arrives before its end.
_RESERVE_S = 2.0
# How long a node may take to undo the change and to answer again.
_GRACE_S = 120.0
# A hung attempt may take half of what is left, but never less than this while there is time.
_SHORTEST_ATTEMPT_S = 5.0
_PAUSE_S = 0.5
# The doctor's statuses that are worth a way back, when they came with the change.
_BAD = ("warn", "fail")


class _TooLong(BaseException):
    """Not an Exception, which a connection that retries would take for its own."""


class _Failed(Exception):
    """A module's result that ends the task."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(str(result.get("msg", "")))
        self.result = dict(result)


class ActionModule(ActionBase):  # type: ignore[misc]
    """Arguments: module and arguments (of who looks), area, run, window_s, checks (topics of the doctor), policy."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars = task_vars or {}
        arguments = self._task.args
        self._area = str(arguments["area"])
        self._window_s = float(arguments["window_s"])
        run = arguments.get("run") or f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        self._change = f"{run}.{self._area}"
        try:
            result.update(self._converge())
        except _Failed as failed:
            result.update(failed.result, failed=not failed.result.get("unreachable", False))
        return result

    def _converge(self) -> dict[str, Any]:
        before = self._look()
        answer = {
            "changed": bool(before["steps"] or before["records"]),
            "diff": before["diff"],
            "problems": list(before["problems"]),
            "notices": list(before["notices"]),
            "reverted": False,
        }
        if before["steps"] and (why := self._on_node("ready")["why"]):
            problem = {"key": self._area, "outcome": "refused", "message": why}
            return {**answer, "changed": False, "problems": [*answer["problems"], problem]}
        if self._task.check_mode or not answer["changed"]:
            return answer
        if before["steps"]:
            log, reverted = self._make(before)
            if reverted:
                problem = {"key": self._area, "outcome": "reverted", "message": reverted}
                return {**answer, "changed": False, "reverted": True, "problems": [*answer["problems"], problem]}
            answer["problems"] += [{"key": self._area, "outcome": "refused", "message": line} for line in log]
        recorded = self._module(self._task.args["module"], {**self._asked(), "phase": "record"})
        answer["problems"] += [each for each in recorded.get("problems", ()) if each not in answer["problems"]]
        after = self._look()
        answer["problems"] += [_left(item, before["state"]) for item in after["wanted"]]
        answer["changed"] = bool(recorded.get("changed")) or after["state"] != before["state"]
        return answer

    def _make(self, before: Mapping[str, Any]) -> tuple[list[str], str]:
        """(lines of steps that failed, why it was reverted or empty)."""
        doctor = self._findings()
        end = time.monotonic() + self._window_s - _RESERVE_S
        self._on_node("begin", window_s=int(self._window_s), steps=before["steps"], undo=before["undo"])
        log = self._come_back(end)
        if log is None:
            return [], self._after_the_window(before)
        while worse := _worse(doctor, self._findings()):
            if time.monotonic() + _PAUSE_S > end:
                return [], self._undo(before, worse)
            time.sleep(_PAUSE_S)
        confirmed = self._on_node("confirm")
        if confirmed["state"] != "absent":
            return [], self._reverted(before, "the confirmation came too late", confirmed)
        return log, ""

    def _come_back(self, end: float) -> list[str] | None:
        """What the steps said, read over a connection that was opened after the last of them. None: not in time."""
        seen = False
        while (left := end - time.monotonic()) > 0:
            try:
                with _bounded(min(left, max(_SHORTEST_ATTEMPT_S, left / 2))):
                    self._new_connection()
                    status = self._on_node("status")
            except (AnsibleConnectionFailure, _TooLong):
                _end_children()
                continue
            if status["state"] != "armed":
                return None
            if seen:
                return list(status["log"])
            seen = bool(status["made"])
            if not seen:
                time.sleep(_PAUSE_S)
        return None

    def _after_the_window(self, before: Mapping[str, Any]) -> str:
        end = time.monotonic() + _RESERVE_S + _GRACE_S
        while (left := end - time.monotonic()) > 0:
            try:
                with _bounded(min(left, max(_SHORTEST_ATTEMPT_S, left / 2))):
                    self._new_connection()
                    status = self._on_node("status")
            except (AnsibleConnectionFailure, _TooLong):
                _end_children()
                continue
            if status["state"] in ("undone", "stuck", "absent"):
                why = f"no new connection within {self._window_s:g} s"
                return self._reverted(before, f"the node could not be reached after the change ({why})", status)
            time.sleep(_PAUSE_S)
        message = (
            f"not reached again after the change of {self._area}, nor {_GRACE_S:g} s after the {self._window_s:g} s in "
            "which the node undoes it by itself: in which state it is is not known"
        )
        raise _Failed({"unreachable": True, "changed": True, "msg": message})

    def _undo(self, before: Mapping[str, Any], worse: list[str]) -> str:
        return self._reverted(before, f"the doctor found it worse: {'; '.join(worse)}", self._on_node("undo"))

    def _reverted(self, before: Mapping[str, Any], why: str, status: Mapping[str, Any]) -> str:
        """Says how the node is now. Fails the task where it is not as it was."""
        # A connection that began under a larger MTU carries nothing long to a node whose MTU is smaller again.
        self._new_connection()
        after = self._look()
        wrong = sorted(key for key, value in before["state"].items() if after["state"].get(key) != value)
        if status["state"] != "undone" or wrong:
            said = "; ".join([*status["log"], f"not as before: {', '.join(wrong)}"] if wrong else status["log"])
            raise _Failed({"msg": f"{why}, and the way back did not hold ({status['state']}): {said}", "changed": True})
        self._on_node("forget")
        return f"{why}, so the node went back to its former state by itself, and is in it"

    def _look(self) -> dict[str, Any]:
        return self._module(self._task.args["module"], {**self._asked(), "phase": "look"})

    def _asked(self) -> dict[str, Any]:
        return dict(self._task.args.get("arguments") or {})

    def _on_node(self, phase: str, **arguments: Any) -> dict[str, Any]:
        return self._module("pdctl_change", {"phase": phase, "change": self._change, **arguments})

    def _module(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(name, arguments, task_vars=self._vars)
        if result.get("failed"):
            raise _Failed(result)
        return result

    def _new_connection(self) -> None:
        reset = getattr(self._connection, "reset", None)
        if reset is not None:
            reset()

    def _findings(self) -> dict[str, tuple[int, str, str]]:
        """Check and subject -> (rank, status, words) of the doctor's findings on the area's topics."""
        topics = set(self._task.args.get("checks") or ())
        if not topics or not self._task.args.get("policy"):
            return {}
        try:
            from pdchecks.collector import script
            from pdchecks.evidence import Evidence, read_blocks
            from pdchecks.policy import Layer, resolve
            from pdchecks.registry import CHECKS
            from pdchecks.run import diagnose
        except ImportError as error:
            # Plain Ansible without pdctl: what the module reads back decides alone.
            Display().vv(f"no doctor here: {error}")
            return {}
        policy = resolve([Layer("policy", json.loads(json.dumps(self._task.args["policy"])))])
        printed = self._module("ansible.legacy.command", {"argv": ["sh", "-s"], "stdin": script(policy, 0)})
        evidence = Evidence("node", tuple(read_blocks(str(printed.get("stdout", "")))))
        checks = [check for check in CHECKS if check.topic in topics]
        return {
            f"{finding.check} {finding.subject}": (finding.status.rank, finding.status.value, finding.summary)
            for finding in diagnose([evidence], lambda _node: policy, checks)
        }


def _worse(before: Mapping[str, tuple[int, str, str]], after: Mapping[str, tuple[int, str, str]]) -> list[str]:
    nothing = (-1, "", "")
    return [
        f"{key}: {words}"
        for key, (rank, status, words) in after.items()
        if status in _BAD and rank > before.get(key, nothing)[0]
    ]


def _left(item: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The problem that a setting is which is not as asked although every step was taken."""
    moved = before.get(item["key"]) != item["live"]
    message = "the node took it and shows another value" if moved else "the node did not take it"
    return {**item, "outcome": "clamped" if moved else "refused", "message": message}


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Raises _TooLong. Ansible's own alarm for the task goes on behind it."""

    def expire(_number: int, _frame: Any) -> None:
        raise _TooLong

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, expire)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - began)), interval)


def _end_children() -> None:
    """A client of SSH that hangs: this worker has no other children."""
    with contextlib.suppress(ImportError):
        import psutil

        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                child.kill()
                child.wait(timeout=5)
