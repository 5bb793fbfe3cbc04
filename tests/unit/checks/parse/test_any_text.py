"""Whatever stands in a block, a reader answers in bounded time with facts or a reason, never with an exception."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdchecks.evidence import Block, by_node, read_blocks
from pdchecks.facts.base import Fact
from pdchecks.finding import document
from pdchecks.nodefacts import gather
from pdchecks.parse import READERS
from pdchecks.parse.reader import Reader
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.run import diagnose
from pdchecks.unknown import Unknown

ROOT = Path(__file__).parents[4]
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])
SEEDS = [
    block
    for path in sorted((ROOT / "tests" / "data").glob("*/*/*.txt"))
    for block in read_blocks(path.read_text(encoding="utf-8"))
]
COMMANDS = sorted({block.command for block in SEEDS})
# One block is at most this long where the collector cut it (collector.py); readers must not be slow even on the worst.
LONG = 50_000
SECONDS = 5.0

TEXTS = st.text(st.characters(codec="utf-8"), max_size=400)
NUMBERS = st.sampled_from(["0", "-1", "99999999999999999999999999", "0x", "1e9", "٣", "", "nan"])
WORST = [
    " ",
    "\t",
    "0",
    "a",
    ":",
    "[",
    "(",
    "/",
    ".",
    "=",
    ",",
    '"',
    "{",
    "_",
    "a ",
    "a: ",
    "x=1 ",
    "[[",
    "\n",
    " \n",
    "a\n",
]
HEADS = [
    "",
    "link ",
    "     rx_prio3_",
    "NET/IB : Using ",
    "ibv_modify_qp failed ",
    "mlx5_core 0000:",
    "options ",
    "GID[  0]: ",
]


def _policy(node: str) -> Policy:
    return POLICY


def _read(reader: Reader, block: Block) -> None:
    reader.claims(block)
    answer = reader.parse(block)
    if isinstance(answer, Unknown):
        assert answer.reason
    else:
        for fact in answer:
            assert isinstance(fact, Fact)
            json.dumps([fact.quote.command, fact.quote.text]).encode("utf-8")


@st.composite
def broken_blocks(draw: st.DrawFn) -> Block:
    """A real block with lines lost, doubled, cut, exchanged or given other numbers and letters."""
    seed = draw(st.sampled_from(SEEDS))
    lines = seed.output.split("\n")[:60]
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = draw(st.integers(0, len(line)))
        change = draw(st.sampled_from(["drop", "double", "cut", "insert", "number", "foreign"]))
        if change == "drop" and len(lines) > 1:
            del lines[at]
        elif change == "double":
            lines.insert(at, line)
        elif change == "cut":
            lines[at] = line[:cut]
        elif change == "insert":
            lines[at] = line[:cut] + draw(TEXTS) + line[cut:]
        elif change == "number":
            digits = [i for i, letter in enumerate(line) if letter.isdigit()]
            if digits:
                digit = draw(st.sampled_from(digits))
                lines[at] = line[:digit] + draw(NUMBERS) + line[digit + 1 :]
        elif change == "foreign":
            lines[at] = draw(st.sampled_from(draw(st.sampled_from(SEEDS)).output.split("\n")))
    rc = draw(st.sampled_from([seed.rc, None, 0, 1, 2, 127]))
    return Block(draw(st.sampled_from([seed.command, seed.command, *COMMANDS[:1]])), rc, "\n".join(lines))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(command=st.sampled_from(COMMANDS) | TEXTS, output=TEXTS, rc=st.sampled_from([None, 0, 1, 127]))
def test_any_text_is_read_or_refused_by_every_reader(command: str, output: str, rc: int | None) -> None:
    for reader in READERS:
        _read(reader, Block(command, rc, output))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(block=broken_blocks())
def test_broken_output_is_read_or_refused(block: Block) -> None:
    for reader in READERS:
        if reader.claims(block):
            _read(reader, block)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(blocks=st.lists(broken_blocks(), min_size=1, max_size=4))
def test_no_check_breaks_on_broken_evidence(blocks: list[Block]) -> None:
    findings = diagnose(by_node(blocks, "node"), _policy)
    assert [f.summary for f in findings if "broke and said nothing" in f.summary] == []
    json.dumps(document(findings)).encode("utf-8")


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.tool)
def test_the_worst_text_takes_bounded_time(reader: Reader) -> None:
    command = next((block.command for block in SEEDS if reader.claims(block)), "")
    for head, unit in [*(("", unit) for unit in WORST), *((head, unit) for head in HEADS for unit in (" ", "0", "a "))]:
        text = (head + unit * (LONG // len(unit)))[:LONG]
        begun = time.monotonic()
        _read(reader, Block(command, 0, text))
        assert time.monotonic() - begun < SECONDS, (head, unit)


# What tests/fuzz found, cut to what it takes.
FOUND = [Block("devlink dev info", 0, "pci/0000:5e:00.0:\n  fixed::\n    fw.psid X\n")]


@pytest.mark.parametrize("block", FOUND, ids=lambda block: block.command)
def test_what_a_fuzzer_once_found_is_read_or_refused(block: Block) -> None:
    for reader in READERS:
        if reader.claims(block):
            _read(reader, block)


def test_a_reader_that_breaks_is_a_reason_and_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(block: Block) -> list[Fact] | Unknown:
        raise ValueError("no such column")

    monkeypatch.setattr("pdchecks.parse.READERS", (Reader("frob", lambda block: True, broken),))
    node = gather(by_node([Block("frob -x", 0, "text")], "node")[0])
    assert node.facts == ()
    assert "no such column" in node.unread[0].reason
