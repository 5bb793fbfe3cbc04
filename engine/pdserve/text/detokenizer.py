"""Token ids to text, a token at a time, never half a character.

A token may hold part of a character's bytes, and a token's text may depend on the one before it (leading spaces). So
a short window of tokens is decoded anew each time, and only what no later token can change is given out: everything
up to a U+FFFD at the very end, which is how an unfinished character decodes.
"""

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
# An unfinished character is at most three bytes, and so three tokens, old; a window this long is not text.
_LONGEST_WINDOW = 32
_CONTEXT_TOKENS = 4


class Detokenizer:
    """decode: a token list to text. prompt: what the tokens follow. The texts that `push` and `finish` return, joined,
    are the text of all tokens, without a character that the last of them left unfinished.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], prompt: Sequence[int] = ()) -> None:
        self._decode = decode
        self._window = list(prompt[-_CONTEXT_TOKENS:])
        self._context = len(self._window)  # tokens at the window's start whose text has been given out before
        # Characters of the window's text that have been given out. A prompt may end inside a character.
        self._given = len(decode(self._window).removesuffix(REPLACEMENT))

    def push(self, token: int) -> str:
        self._window.append(token)
        text = self._decode(self._window)
        unfinished = text.endswith(REPLACEMENT) and len(self._window) < _LONGEST_WINDOW
        end = len(text) - 1 if unfinished else len(text)
        new = text[self._given : end]
        self._given = max(self._given, end)
        if not unfinished:
            self._advance()
        return new

    def _advance(self) -> None:
        """Keeps only the newest tokens, as the context that the next one may need."""
        self._window = self._window[self._context :]
        self._context = len(self._window)
        self._given = len(self._decode(self._window))

    def finish(self) -> str:
        """What was held back, but for the start of a character whose rest never came: half of one is no text."""
        text = self._decode(self._window).removesuffix(REPLACEMENT)
        new = text[self._given :]
        self._given = max(self._given, len(text))
        return new
