"""Nothing that was given is dropped without a word: what nobody could read is listed, and judging nothing is no pass."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema

import pdchecks

SCHEMA = Path(pdchecks.__file__).parent / "findings.schema.json"
KNOWN = "=== cmd: ulimit -n\n=== rc: 0\n1024\n=== end\n"
UNKNOWN = "=== cmd: frobnicate -x\n=== rc: 0\nabc\ndef\n=== end\n"


def _doctor(text: str) -> tuple[int, dict[str, list[dict[str, object]]], str]:
    command = [sys.executable, "-m", "pdctl", "doctor", "--from", "-", "-o", "json"]
    ran = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=120)
    document = json.loads(ran.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return ran.returncode, document, ran.stderr


def test_prose_is_listed_and_nothing_judged_is_exit_3() -> None:
    code, document, stderr = _doctor("Dear colleagues,\nit does not work.\n")
    assert code == 3
    assert document["findings"] == []
    assert document["unrecognised"] == [{"source": "stdin", "line": 1, "text": "Dear colleagues,", "lines": 2}]
    assert stderr == "not recognised: stdin:1: Dear colleagues, (2 lines)\n"


def test_a_block_that_no_reader_knows_is_listed_beside_the_findings_of_the_others() -> None:
    code, document, stderr = _doctor(KNOWN + UNKNOWN)
    assert code in (0, 1)
    assert document["findings"]
    assert document["unrecognised"] == [{"source": "stdin", "line": 0, "text": "frobnicate -x", "lines": 2}]
    assert stderr == "not recognised: stdin: frobnicate -x (2 lines)\n"


def test_a_terminal_is_read_command_by_command() -> None:
    code, document, _ = _doctor("[root@n7 ~]# ulimit -n\n1024\n[root@n7 ~]# frobnicate -x\nup 3 days\n")
    assert code in (0, 1)
    assert {finding["subject"]["node"] for finding in document["findings"]} == {"n7"}  # type: ignore[index]
    assert [each["text"] for each in document["unrecognised"]] == ["frobnicate -x"]


def test_a_known_tools_output_of_an_unknown_form_is_listed_too() -> None:
    _, document, _ = _doctor("=== cmd: ibstat\n=== rc: 0\nAccess is discontinued.\n=== end\n" + KNOWN)
    assert [each["text"] for each in document["unrecognised"]] == ["ibstat"]


def test_a_log_without_events_and_an_empty_table_are_read() -> None:
    log = "=== cmd: dmesg\n=== rc: 0\n[    0.000000] Linux version 6.1\n=== end\n"
    table = "=== cmd: nvidia-smi --query-compute-apps=pid --format=csv\n=== rc: 0\npid\n=== end\n"
    _, document, _ = _doctor(log + table)
    assert document["unrecognised"] == []


def test_what_a_stranger_wrote_is_shown_without_its_control_characters() -> None:
    _, document, stderr = _doctor("hello \x07 there\n")
    assert stderr == "not recognised: stdin:1: hello \ufffd there\n"
    assert document["unrecognised"]


def test_a_name_that_a_stranger_gave_a_node_moves_no_cursor(tmp_path: Path) -> None:
    folder = tmp_path / "x" / "red\x1b[31m\x9b"
    folder.mkdir(parents=True)
    (folder / "evidence.txt").write_text(KNOWN, encoding="utf-8")
    command = [sys.executable, "-m", "pdctl", "doctor", "-v", "--from", str(tmp_path / "x")]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert "red\ufffd[31m\ufffd" in ran.stdout
    assert not {"\x1b", "\x9b"} & set(ran.stdout + ran.stderr)
