"""Keeps a client's words from becoming control: `<|im_start|>` in a message is text, in the chat template a token.

Templates render to one string, in which the two look the same. So before rendering, each special token that stands in a
message is taken apart by a mark between its characters; what is then still whole was written by the template.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Unicode's noncharacters: never assigned, so in nobody's text but by mischief.
_MARKS = tuple(map(chr, range(0xFDD0, 0xFDF0)))


@dataclass(frozen=True)
class Quoted:
    """mark: what stands between the characters of special tokens in the messages; None when there were none."""

    messages: list[dict[str, Any]]
    mark: str | None


class SpecialTokens:
    """Of one fast tokenizer (the `tokenizers` library's)."""

    def __init__(self, fast: Any) -> None:
        self._fast = fast
        added = fast.get_added_tokens_decoder()
        self._tokens: dict[str, tuple[int, Any]] = {
            token.content: (number, token) for number, token in added.items() if token.special
        }
        longest_first = sorted(filter(None, self._tokens), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        # One that reads special tokens as the text they are written with.
        self._plain = copy.deepcopy(fast)
        self._plain.encode_special_tokens = True

    def quote(self, messages: Sequence[Mapping[str, Any]]) -> Quoted:
        """`content` of each message is text."""
        contents = "".join(str(message["content"]) for message in messages)
        if not self._pattern.search(contents):
            return Quoted([dict(message) for message in messages], None)
        mark = next((mark for mark in _MARKS if mark not in contents), _MARKS[0])
        return Quoted(
            [
                {**message, "content": self._pattern.sub(lambda found: mark.join(found[0]), str(message["content"]))}
                for message in messages
            ],
            mark,
        )

    def encode(self, text: str, mark: str | None) -> list[int]:
        """Token ids of a rendered template. The template writes the special tokens itself: none are added."""
        if mark is None:
            ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
            return ids
        ids, begin, stripped = [], 0, False
        for found in self._pattern.finditer(text):
            number, token = self._tokens[found[0]]
            piece = text[begin : found.start()]
            ids += self._encode_plain(piece.rstrip() if token.lstrip else piece, mark, stripped)
            ids.append(number)
            begin, stripped = found.end(), token.rstrip
        return ids + self._encode_plain(text[begin:], mark, stripped)

    def _encode_plain(self, piece: str, mark: str, stripped: bool) -> list[int]:
        text = (piece.lstrip() if stripped else piece).replace(mark, "")
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        return ids
