"""The prompt set of the token-equality proof: lengths around block and chunk edges, several chunks, several languages.

Prompts are token ids, so that no tokenizer stands between the two runs; the texts are made here, from lists, by fixed
rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BLOCK_TOKENS = 16
CHUNK_TOKENS = 256

_WHO = (
    "The harbour master",
    "A night nurse",
    "My older brother",
    "The referee",
    "Every apprentice",
    "An old clockmaker",
)
_DID = (
    "kept a list of",
    "argued about",
    "could never forget",
    "drew a map of",
    "was paid to count",
    "wrote home about",
)
_WHAT = ("the seven bridges", "broken lanterns", "a train that came early", "the price of salt", "unfinished songs")
_WHY = (
    "because the winter had been long",
    "although nobody had asked",
    "until the river froze",
    "and told the children why",
    "so that the next one would know",
    "while the kettle boiled",
    "before the war changed the roads",
)

SHORT = (
    "The capital of France is",
    "Q: What is 17 + 25?\nA:",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "Once upon a time, in a village by the sea, there lived",
    "Translate to German: Good morning, my friend. ->",
    "1, 1, 2, 3, 5, 8, 13,",
    '{"name": "Ada", "born": 1815, "field": "',
    "人工智能是计算机科学的一个分支，它的目标是",
)
EXACT = (
    1,
    BLOCK_TOKENS - 1,
    BLOCK_TOKENS,
    BLOCK_TOKENS + 1,
    4 * BLOCK_TOKENS - 1,
    100,
    CHUNK_TOKENS - 1,
    CHUNK_TOKENS,
    CHUNK_TOKENS + 1,
    2 * CHUNK_TOKENS,
    2 * CHUNK_TOKENS + 1,
    1000,
    1500,
)


@dataclass(frozen=True)
class Prompt:
    name: str
    token_ids: list[int]


def story(sentences: int, start: int = 0) -> str:
    """Sentences that do not repeat as a whole, numbered, so that each position reads differently."""
    return " ".join(
        f"{number}. {_WHO[number % 6]} {_DID[(number // 2) % 6]} {_WHAT[(number * 3 + 1) % 5]}, {_WHY[(number * 5) % 7]}."
        for number in range(start, start + sentences)
    )


def prompts(encode: Callable[[str], list[int]]) -> list[Prompt]:
    """At least 20. encode: the model's tokenizer."""
    exact = [Prompt(f"length {length}", encode(story(120, start=length))[:length]) for length in EXACT]
    return exact + [Prompt(text[:24], encode(text)) for text in SHORT]
