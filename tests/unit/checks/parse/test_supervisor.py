import pytest
from tests.unit.checks.parse.reading import node, read

from pdchecks.facts.deployment import Canary, LiveProcesses, SupervisedUnit

COMMAND = "cat /root/.local/state/pdctl/deployments/demo/status.json"


def test_what_the_supervisor_writes_is_what_is_read() -> None:
    from pdctl.deploy.process import ProcessId
    from pdctl.deploy.state import CanaryStatus, Status, UnitStatus

    status = Status(
        since=1.0,
        phase="degraded",
        units={
            "prefill": UnitStatus(state="ready", process=ProcessId(pid=811, born="1")),
            "decode": UnitStatus(state="backing-off", restarts=3, reason="exit status 1"),
        },
        canary=CanaryStatus(at=1.0, passed=False, wrong=True, reason="token 3"),
    )
    text = status.model_dump_json(by_alias=True, indent=2)
    prefill, decode = read(SupervisedUnit, COMMAND, text)
    assert (prefill.deployment, prefill.role, prefill.state, prefill.pid) == ("demo", "prefill", "ready", 811)
    assert (decode.state, decode.restarts, decode.reason, decode.pid) == ("backing-off", 3, "exit status 1", 0)
    (canary,) = read(Canary, COMMAND, text)
    assert (canary.passed, canary.wrong, canary.reason) == (False, True, "token 3")


def test_processes_that_live_are_those_that_ls_lists() -> None:
    text = "/proc/811\nls: cannot access '/proc/812': No such file or directory"
    (live,) = read(LiveProcesses, "ls -d /proc/811 /proc/812", text, 2)
    assert live.pids == frozenset({811})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"units": [1], "canary": 3}', '{"units": {"prefill": 3}}'])
def test_a_status_that_is_none_breaks_nothing(text: str) -> None:
    assert not node(COMMAND, text).all(SupervisedUnit)
    assert not [unread for unread in node(COMMAND, text).unread if "broke" in unread.reason]
