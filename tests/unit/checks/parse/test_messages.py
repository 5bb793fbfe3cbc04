import pytest
from tests.unit.checks.parse.reading import read

from pdchecks.facts.host import TranslatedMessage


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
