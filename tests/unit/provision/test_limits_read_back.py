"""Reading limits back from a login and a service: what was lost once is asked again, what stays silent says with which exit code."""

from collections.abc import Iterator, Sequence

import pytest
from ansible.module_utils.basic import AnsibleModule
from tests.unit.provision.node_module import answer_of, node_module

HELD = "4096\n4096\n1000\n1000\n"


def _answered(monkeypatch: pytest.MonkeyPatch, answers: Sequence[tuple[int, str, str]]) -> None:
    """`su` answers at once; `systemd-run` what is given, one a call, the last for ever."""
    service: Iterator[tuple[int, str, str]] = iter(answers)
    last = answers[-1]

    def run(_module: AnsibleModule, argv: Sequence[str], **_options: object) -> tuple[int, str, str]:
        return (0, HELD, "") if argv[0] == "su" else next(service, last)

    monkeypatch.setattr(AnsibleModule, "run_command", run)


def test_a_service_whose_answer_was_lost_once_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answered(monkeypatch, [(1, "", ""), (0, HELD, "")])
    answer = answer_of(node_module("limits", "pdctl_limits"), capsys, memlock="4096", nofile="1000")
    assert answer["problems"] == []
    assert len(answer["results"]) == 8


@pytest.mark.parametrize(
    ("silent", "why"),
    [
        ((203, "", ""), "systemd-run printed nothing and ended with exit code 203"),
        ((1, "", "Failed to connect to bus\n"), "Failed to connect to bus"),
    ],
)
def test_a_service_that_never_answers_is_refused_with_what_it_said(
    silent: tuple[int, str, str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answered(monkeypatch, [silent])
    answer = answer_of(node_module("limits", "pdctl_limits"), capsys, memlock="4096", nofile="1000")
    assert {problem["key"].split()[0] for problem in answer["problems"]} == {"service"}
    assert {problem["message"] for problem in answer["problems"]} == {f"could not be read: {why}"}
