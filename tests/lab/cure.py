"""Break a machine, ask the doctor, do what it says, ask again; what came of it is a row of a table.

The table is printed at the end of the test run (conftest.py) and stands in no file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

# Topic and object of a finding.
Key = tuple[str, str]
Findings = Mapping[Key, Mapping[str, Any]]
BAD = ("warn", "fail")
_REMEDY_DEADLINE_S = 600.0


class Machine(Protocol):
    """A node or a virtual machine."""

    def ssh(self, command: str, *, timeout_s: float = ...) -> str: ...


M = TypeVar("M", bound=Machine)


@dataclass(frozen=True)
class Fault(Generic[M]):
    """breaks: what is then wrong, for whom. topic and subject: of the doctor's finding. present: asks the machine itself.

    also: findings that follow from it. by_hand: what the remedy asks of a person beyond its commands.
    """

    name: str
    breaks: str
    topic: str
    subject: str
    apply: Callable[[M], object]
    present: Callable[[M], bool]
    also: frozenset[Key] = frozenset()
    by_hand: Callable[[M], object] | None = None

    @property
    def findings(self) -> frozenset[Key]:
        return self.also | {(self.topic, self.subject)}


@dataclass(frozen=True)
class Row:
    """found: the fault's findings, then what came of them. others: further new findings. done: the remedy, as it was done."""

    machine: str
    fault: str
    found: str
    others: str
    done: Sequence[str]
    after: str


ROWS: list[Row] = []


def by_key(findings: Iterable[Mapping[str, Any]]) -> Findings:
    return {(finding["topic"], finding["subject"]["object"]): finding for finding in findings}


def bad(findings: Findings) -> set[Key]:
    return {key for key, finding in findings.items() if finding["status"] in BAD}


def shown_by(command: str) -> Callable[[Machine], bool]:
    """Whether a command of the machine succeeds."""

    def present(machine: Machine) -> bool:
        return machine.ssh(f"if {command}; then echo yes; else echo no; fi").split()[-1] == "yes"

    return present


def commands_of(machine: Machine, remedy: Mapping[str, Any]) -> list[str]:
    """Do a remedy by hand, and say what was done. A command whose tool the machine lacks is for other machines.

    Raises RuntimeError when a command fails.
    """
    done = []
    for command in remedy["commands"]:
        tool = next(word for word in command.split() if "=" not in word)
        try:
            said = machine.ssh(
                f"command -v {tool} >/dev/null || {{ echo pdctl-lab: absent; exit 0; }}\n{command}",
                timeout_s=_REMEDY_DEADLINE_S,
            )
        except RuntimeError as error:
            # An emulated card has no transceiver that `ethtool -m` could read.
            if tool != "ethtool" or "Operation not supported" not in str(error):
                raise
            continue
        if said.strip() != "pdctl-lab: absent":
            done.append(command)
    return done


def prove(
    machine: M,
    name: str,
    fault: Fault[M],
    before: set[Key],
    diagnose: Callable[[], Findings],
    remedy: Callable[[M, Mapping[str, Any]], list[str]] = commands_of,
) -> None:
    """Assert that the fault is found, with nothing else that is bad, and that the remedy cures it. before: what was bad."""
    fault.apply(machine)
    assert fault.present(machine), f"{fault.name} was not brought about"
    found = diagnose()
    new = bad(found) - before
    done: list[str] = []
    for key in sorted(new & fault.findings):
        done += [command for command in remedy(machine, found[key]["remedy"]) if command not in done]
    if fault.by_hand is not None:
        fault.by_hand(machine)
        done.append("(by hand)")
    cured = diagnose()
    left = bad(cured) - before
    ROWS.append(
        Row(
            name,
            fault.name,
            "; ".join(_said(found[key]) for key in sorted(new & fault.findings)) or "nothing",
            "; ".join(_said(found[key]) for key in sorted(new - fault.findings)) or "none",
            done,
            "; ".join(_said(cured[key]) for key in sorted(left)) or _passes(fault, cured),
        )
    )
    assert new == fault.findings
    assert not left
    assert not fault.present(machine), f"the doctor is content, and {fault.name} is still there"


def _said(finding: Mapping[str, Any]) -> str:
    return f"{finding['check']} {finding['status']}: {finding['subject']['object']}"


def _passes(fault: Fault[M], cured: Findings) -> str:
    """The status of the same findings; a finding about one place goes away with what was there."""
    return ", ".join(sorted({str(cured[key]["status"]) if key in cured else "gone" for key in fault.findings}))


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = ("machine", "fault", "finding", "other new", "remedy as printed and done", "after")
    lines = [_line(head), _line(("---",) * len(head))]
    for row in rows:
        done = "<br>".join(f"`{command.replace('|', chr(92) + '|')}`" for command in row.done)
        lines.append(_line((row.machine, row.fault, row.found, row.others, done, row.after)))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
