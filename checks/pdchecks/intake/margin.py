"""The margin that a mail, a ticket or a document put before each line of what was pasted into it."""

import re

_QUOTED = re.compile(r"[ \t]{0,8}(?:> ?){1,9}")
_INDENT = re.compile(r"[ \t]+")
# What begins in the first column wherever nobody moved it: a block of evidence, a terminal's prompt.
_FIRST_COLUMN = re.compile(
    r"^[ \t]+(?:=== cmd: |\[[\w.-]{1,64}@[\w.-]{1,64}[^\]\n]{0,200}\] ?[#$%]|[\w.-]{1,64}@[\w.-]{1,64}:[^#$\n]{0,200}[#$] )",
    re.MULTILINE,
)


def without_margin(text: str) -> str:
    """The text with as many lines. A quotation's marks go where most lines have them; an indentation that all lines
    share goes where something stands behind it that begins in the first column.
    """
    lines = text.split("\n")
    filled = [line for line in lines if line and not line.isspace()]
    if filled and sum(_QUOTED.match(line) is not None for line in filled) * 2 > len(filled):
        return "\n".join(line[quoted.end() :] if (quoted := _QUOTED.match(line)) else line for line in lines)
    margin = _INDENT.match(filled[0]) if filled else None
    if margin is None or not all(line.startswith(margin[0]) for line in filled) or not _FIRST_COLUMN.search(text):
        return text
    return "\n".join(line.removeprefix(margin[0]) for line in lines)
