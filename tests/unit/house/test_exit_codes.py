"""One exit code when several apply."""

import pytest

from pdctl.exit_codes import ExitCode, worst


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], ExitCode.DONE),
        ([ExitCode.FINDINGS, ExitCode.INCOMPLETE], ExitCode.INCOMPLETE),
        ([ExitCode.INCOMPLETE, ExitCode.PARTLY], ExitCode.PARTLY),
        ([ExitCode.PARTLY, ExitCode.FAILED], ExitCode.FAILED),
        ([ExitCode.FAILED, ExitCode.INTERRUPTED], ExitCode.INTERRUPTED),
        ([ExitCode.DONE, ExitCode.FINDINGS], ExitCode.FINDINGS),
    ],
)
def test_the_gravest_code_wins(codes: list[ExitCode], expected: ExitCode) -> None:
    assert worst(codes) is expected


def test_every_code_has_a_meaning() -> None:
    assert all(code.meaning for code in ExitCode)
