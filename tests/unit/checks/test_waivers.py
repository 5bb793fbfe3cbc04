"""Waivers name a reason and an end, and past their end they waive nothing."""

from datetime import date
from pathlib import Path

import pytest
from tests.unit.checks.reports import MTU_AND_ITS_ERRORS, findings

from pdchecks.finding import Status
from pdchecks.registry import BY_ID
from pdchecks.waivers import WaiverError, apply, doubts, read_waivers

ENTRY = "waivers:\n  - check: PD-MTU-*\n    subject: 'decode-1*'\n    reason: new cables on Friday\n    expires: 2027-01-15\n"


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "waivers.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_waived_finding_keeps_its_status_and_says_why(tmp_path: Path) -> None:
    waivers = read_waivers(_file(tmp_path, ENTRY))
    marked, (use,) = apply(waivers, findings(MTU_AND_ITS_ERRORS), date(2027, 1, 15))
    waived = [finding for finding in marked if finding.waived]
    assert {finding.check for finding in waived} == {"PD-MTU-002", "PD-MTU-003"}
    assert all(finding.waived and finding.waived.reason == "new cables on Friday" for finding in waived)
    assert {finding.status for finding in waived} == {Status.WARN, Status.FAIL}
    assert (use.expired, use.matched) == (False, 2)


def test_an_expired_waiver_says_so_and_waives_nothing(tmp_path: Path) -> None:
    waivers = read_waivers(_file(tmp_path, ENTRY))
    marked, (use,) = apply(waivers, findings(MTU_AND_ITS_ERRORS), date(2027, 1, 16))
    assert not any(finding.waived for finding in marked)
    assert (use.expired, use.matched) == (True, 2)


def test_a_waiver_of_another_node_or_check_waives_nothing(tmp_path: Path) -> None:
    for old, new in (("decode-1*", "decode-2*"), ("PD-MTU-*", "PD-GID-*")):
        waivers = read_waivers(_file(tmp_path, ENTRY.replace(old, new)))
        marked, (use,) = apply(waivers, findings(MTU_AND_ITS_ERRORS), date(2026, 12, 1))
        assert not any(finding.waived for finding in marked)
        assert use.matched == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ENTRY.replace("    reason: new cables on Friday\n", ""), "waiver 1 gives no `reason`"),
        (ENTRY.replace("    expires: 2027-01-15\n", ""), "waiver 1 gives no `expires`"),
        (ENTRY.replace("2027-01-15", "soon"), "`expires: soon` is no date"),
        (ENTRY.replace("subject", "node"), "keys that no waiver has: node"),
        ("- check: PD-MTU-001\n", "is `waivers:` and a list"),
        ("waivers: [PD-MTU-001]\n", "waiver 1 is no mapping"),
        ("waivers: [", "waivers.yml"),
    ],
)
def test_a_bad_waiver_is_a_clear_error(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(WaiverError, match=says.replace("[", r"\[")):
        read_waivers(_file(tmp_path, text))


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(WaiverError, match="No such file"):
        read_waivers(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("PD-MTU-*", []),
        ("pd-mtu-003", []),
        ("PD-MTU-0033", ["no check is called `PD-MTU-0033`; did you mean `PD-MTU-003`?"]),
        ("PD-MUT-003", ["no check is called `PD-MUT-003`; did you mean `PD-MTU-003`?"]),
        ("zzz", ["no check is called `ZZZ`"]),
        ('"*"', ["`check: *` accepts every finding of `decode-1*`"]),
    ],
)
def test_a_waiver_that_fits_no_check_or_all_of_them_is_told(tmp_path: Path, check: str, says: list[str]) -> None:
    waivers = read_waivers(_file(tmp_path, ENTRY.replace("PD-MTU-*", check)))
    assert list(doubts(waivers, list(BY_ID))) == says


@pytest.mark.parametrize("check", ["*", "PD-*"])
def test_a_waiver_of_everything_everywhere_is_refused(tmp_path: Path, check: str) -> None:
    text = ENTRY.replace("PD-MTU-*", f"'{check}'").replace("    subject: 'decode-1*'\n", "")
    with pytest.raises(WaiverError, match="accepts every finding of every node"):
        list(doubts(read_waivers(_file(tmp_path, text)), list(BY_ID)))
