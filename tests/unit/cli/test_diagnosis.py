"""The doctor's exit code."""

from pdchecks.finding import Status
from pdctl.diagnosis import exit_code
from pdctl.exit_codes import ExitCode


def test_nothing_judged_is_incomplete_and_not_a_pass() -> None:
    assert exit_code([], [], Status.FAIL, judged=False) is ExitCode.INCOMPLETE
