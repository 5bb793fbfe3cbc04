"""Messages in other languages than English."""

import re
from collections.abc import Iterator

import pytest
from tests.unit.checks.parse.reading import read

from pdchecks.evidence import Block
from pdchecks.facts.host import TranslatedMessage
from pdchecks.parse.messages import _TABLE, READER


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ('"msg": "Fout: Niets te doen\\n"', "Dutch"),
        ("Rien à faire", "French"),
        ("Fehler: Nichts zu tun", "German"),
        ("Lecture des listes de paquets...", "French"),
        ("错误：无须任何处理", "Chinese"),
        ("bash: ibstat: Kommando nicht gefunden.", "German"),
        ("ls: /etc/x: Нет такого файла или каталога", "Russian"),
        ("読み込んだプラグイン:fastestmirror", "Japanese"),
    ],
)
def test_a_message_is_known_by_its_language(text: str, language: str) -> None:
    assert language in {fact.language for fact in read(TranslatedMessage, "yum install x", text)}


@pytest.mark.parametrize("text", ["Nothing to do", "Loaded plugins: fastestmirror", "Erreur", "# Dépôt interne", ""])
def test_english_and_names_are_no_translation(text: str) -> None:
    assert not read(TranslatedMessage, "yum install x", text)


def _spelled(pattern: str) -> Iterator[str]:
    """Every text that a pattern of the table stands for: its alternatives, and optional letters with and without."""
    group = re.search(r"\(\?:([^()]*)\)(\??)", pattern)
    if group:
        for choice in (*group[1].split("|"), *([""] if group[2] else [])):
            yield from _spelled(pattern[: group.start()] + choice + pattern[group.end() :])
    elif "|" in pattern:
        for choice in pattern.split("|"):
            yield from _spelled(choice)
    elif optional := re.search(r"(.)\?", pattern):
        for choice in (optional[1], ""):
            yield from _spelled(pattern[: optional.start()] + choice + pattern[optional.end() :])
    else:
        yield re.sub(r"\[(.)[^\]]*\]", r"\1", pattern.removeprefix("^"))


def test_every_phrase_of_the_table_is_found_by_its_words() -> None:
    phrases = [text for _, translations in _TABLE for pattern in translations.values() for text in _spelled(pattern)]
    assert len(phrases) > 100
    assert [text for text in phrases if not READER.claims(Block("", None, f"x\n{text}\n"))] == []
