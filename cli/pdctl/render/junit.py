"""A report as JUnit XML: one suite a node, one case a finding, as CI systems read it."""

import re
from xml.etree import ElementTree

from pdchecks.finding import Finding, Status
from pdchecks.report import Report

# Characters that XML 1.0 cannot carry at all.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, fail_on: Status) -> str:
    """At or above `fail_on` a finding is a failure, a node that was not reached an error; unknown and waived are skipped."""
    root = ElementTree.Element("testsuites", name="pdctl doctor")
    nodes = dict.fromkeys([entry.node for entry in report.incomplete] + [f.subject.node for f in report.findings])
    for node in nodes:
        suite = ElementTree.SubElement(root, "testsuite", name=_clean(node))
        for entry in report.incomplete:
            if entry.node == node:
                _child(_case(suite, "collector", "node was looked at"), "error", entry.reason, entry.hint)
        for finding in report.findings:
            if finding.subject.node == node:
                _finding(suite, finding, fail_on)
        _count(suite)
    _count(root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _finding(suite: ElementTree.Element, finding: Finding, fail_on: Status) -> None:
    case = _case(suite, finding.check, f"{finding.topic} {finding.subject}")
    if finding.waived is not None:
        said = f"waived until {finding.waived.expires}: {finding.waived.reason}; {finding.summary}"
        _child(case, "skipped", said, "")
    elif finding.status.rank >= fail_on.rank:
        _child(case, "failure", finding.summary, _details(finding)).set("type", finding.status.value)
    elif finding.status is Status.UNKNOWN:
        _child(case, "skipped", finding.summary, "")
    else:
        ElementTree.SubElement(case, "system-out").text = _clean(f"{finding.status.value}: {finding.summary}")


def _details(finding: Finding) -> str:
    remedy = finding.remedy
    lines = [f"why: {finding.cause}"] if finding.cause else []
    lines += [f"seen: {quote.text}  [{quote.command}]" for quote in finding.evidence]
    lines += [f"verify: {command}" for command in finding.verify]
    if remedy is not None:
        lines += [f"fix: {remedy.text}", *(f"fix: {command}" for command in remedy.commands)]
    return "\n".join(lines)


def _case(suite: ElementTree.Element, check: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_clean(check), name=_clean(name))


def _child(case: ElementTree.Element, tag: str, message: str, text: str) -> ElementTree.Element:
    child = ElementTree.SubElement(case, tag, message=_clean(message))
    child.text = _clean(text) or None
    return child


def _count(element: ElementTree.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(name, str(len(element.findall(f".//{tag}"))))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
