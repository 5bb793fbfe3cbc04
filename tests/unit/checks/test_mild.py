"""What does no harm on this node is information; what is not known stays not known."""

from dataclasses import replace

import pytest

from pdchecks.check import Verdict, mild
from pdchecks.finding import Status

VERDICT = Verdict(Status.WARN, "this node", "rp_filter is 1")


@pytest.mark.parametrize("status", [Status.WARN, Status.FAIL])
def test_a_fault_that_does_no_harm_here_is_information_with_its_reason(status: Status) -> None:
    told = mild(replace(VERDICT, status=status), "no rails here")
    assert (told.status, told.summary) == (Status.INFO, "rp_filter is 1, no rails here")


@pytest.mark.parametrize("status", [Status.PASS, Status.UNKNOWN])
def test_a_pass_and_an_unknown_stay_what_they_are(status: Status) -> None:
    verdict = replace(VERDICT, status=status)
    assert mild(verdict, "no rails here") is verdict
