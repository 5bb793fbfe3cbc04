"""Text comes out in whole characters, and ends at a stop string wherever the tokens cut it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdserve.text.answer_text import AnswerText
from pdserve.text.detokenizer import REPLACEMENT, Detokenizer
from pdserve.text.stop_strings import StopStrings


def bytes_to_text(tokens: Sequence[int]) -> str:
    """The worst tokenizer: one token a byte."""
    return bytes(tokens).decode(errors="replace")


@given(st.text(max_size=40))
def test_pieces_are_whole_characters_and_join_to_the_text(text: str) -> None:
    detokenizer = Detokenizer(bytes_to_text)
    pieces = [detokenizer.push(token) for token in text.encode()] + [detokenizer.finish()]
    assert "".join(pieces) == text.removesuffix(REPLACEMENT)
    assert all(REPLACEMENT not in piece or REPLACEMENT in text for piece in pieces)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_text_come_out_as_they_would_in_one_go(data: bytes) -> None:
    detokenizer = Detokenizer(bytes_to_text)
    pieces = [detokenizer.push(token) for token in data] + [detokenizer.finish()]
    assert "".join(pieces) == bytes_to_text(data).removesuffix(REPLACEMENT)


@pytest.mark.parametrize("kept", range(1, 4))
def test_an_answer_cut_inside_a_character_ends_before_it(kept: int) -> None:
    text = AnswerText(bytes_to_text, [], ["never"])
    pieces = [text.push(token) for token in b"ok " + "😀".encode()[:kept]]
    assert "".join([*pieces, text.finish()]) == "ok "


def test_chinese_comes_out_a_character_at_a_time() -> None:
    detokenizer = Detokenizer(bytes_to_text)
    pieces = [detokenizer.push(token) for token in "智能".encode()]
    assert pieces == ["", "", "智", "", "", "能"]


def test_a_word_keeps_the_space_that_only_its_place_after_the_prompt_gives_it() -> None:
    words = {1: "hello", 2: "world"}

    def decode(tokens: Sequence[int]) -> str:
        return " ".join(words[token] for token in tokens)

    assert Detokenizer(decode, prompt=[1]).push(2) == " world"


def test_a_character_that_the_prompt_began_is_finished() -> None:
    start, end = "é".encode()
    assert Detokenizer(bytes_to_text, prompt=[ord("a"), start]).push(end) == "é"


def test_a_long_answer_costs_no_more_a_token_than_a_short_one() -> None:
    longest = 0

    def decode(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return bytes_to_text(tokens)

    detokenizer = Detokenizer(decode)
    for _ in range(500):
        detokenizer.push(0xFF)
        detokenizer.push(ord("x"))
    assert longest <= 40


def cut(text: str, at: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(position % (len(text) + 1) for position in at)})
    return [text[a:b] for a, b in pairwise(edges)]


@given(
    st.text("abc", max_size=30),
    st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 30)),
)
def test_a_stop_string_ends_the_text_wherever_the_pieces_are_cut(text: str, stops: list[str], at: list[int]) -> None:
    stop = StopStrings(stops)
    given_out = ""
    for piece in cut(text, at):
        given_out += stop.push(piece)
    given_out += "" if stop.stopped else stop.finish()
    found = [place for one in stops if (place := text.find(one)) >= 0]
    if not found:
        assert given_out == text
    else:
        # The first stop to be complete ends the text; with several, one that began earlier may still be incomplete.
        assert stop.stopped
        assert text.startswith(given_out)
        assert any(text[len(given_out) :].startswith(one) for one in stops)


def test_nothing_of_a_stop_string_is_ever_shown() -> None:
    text = AnswerText(bytes_to_text, [], ["END"])
    shown = [text.push(token) for token in b"one EN two END three"]
    assert "".join(shown) == "one EN two "
    assert text.stopped
    assert text.finish() == ""
