"""A report as Prometheus text for node_exporter's textfile collector: gauges of bounded number."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pdchecks.finding import Finding, Status
from pdchecks.report import Report

Labels = dict[str, str]


def render(report: Report) -> str:
    """Series by node, status and check; never by object, whose names are unbounded. Waived findings count apart."""
    nodes = list(dict.fromkeys([f.subject.node for f in report.findings] + [entry.node for entry in report.incomplete]))
    unreached = {entry.node for entry in report.incomplete}
    counts = Counter((finding.subject.node, finding.status) for finding in report.counted)
    waived = Counter(finding.subject.node for finding in report.findings if finding.waived is not None)
    by_status = [({"node": n, "status": s.value}, counts[n, s]) for n in nodes for s in Status]
    lines = [
        *_family("pdctl_doctor_findings", "Findings that are not waived, by status.", by_status),
        *_family("pdctl_doctor_waived", "Findings that are waived.", [({"node": n}, waived[n]) for n in nodes]),
        *_family(
            "pdctl_doctor_node_reached",
            "Whether the node could be looked at as a whole.",
            [({"node": node}, int(node not in unreached)) for node in nodes],
        ),
        *_family(
            "pdctl_doctor_check_status",
            "Worst status of a check on a node: 0 pass, 1 info, 2 unknown, 3 warn, 4 fail.",
            _worst(report.counted),
        ),
    ]
    return "\n".join(lines)


def _worst(findings: Iterable[Finding]) -> list[tuple[Labels, int]]:
    worst: dict[tuple[str, str, str], int] = {}
    for finding in findings:
        key = (finding.subject.node, finding.check, finding.topic)
        worst[key] = max(worst.get(key, 0), finding.status.rank)
    return [({"node": node, "check": check, "topic": topic}, rank) for (node, check, topic), rank in worst.items()]


def _family(name: str, help_text: str, samples: list[tuple[Labels, int]]) -> Iterator[str]:
    if samples:
        yield f"# HELP {name} {help_text}"
        yield f"# TYPE {name} gauge"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
