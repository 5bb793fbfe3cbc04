"""The lines that a log's reader looks at are those that a search of each line would find."""

import re

from hypothesis import given
from hypothesis import strategies as some

from pdchecks.evidence import LONGEST_LINE, Block
from pdchecks.parse.reader import lines_with

_MARK = re.compile(r"ab|b\w")


@given(some.text(alphabet="ab \n", max_size=60))
def test_every_line_with_the_mark_is_found_once_and_in_order(text: str) -> None:
    block = Block("dmesg", 0, text)
    assert list(lines_with(block, _MARK)) == [line for line in block.lines if _MARK.search(line)]


def test_a_long_line_is_cut() -> None:
    (line,) = lines_with(Block("dmesg", 0, "\n" + "ab" * LONGEST_LINE + "\n"), _MARK)
    assert len(line) == LONGEST_LINE
