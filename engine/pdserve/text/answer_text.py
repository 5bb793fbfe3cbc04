"""One answer's text: tokens in, text out, stop strings applied."""

from collections.abc import Callable, Sequence

from pdserve.text.detokenizer import Detokenizer
from pdserve.text.stop_strings import StopStrings


class AnswerText:
    def __init__(self, decode: Callable[[Sequence[int]], str], prompt: Sequence[int], stops: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(decode, prompt)
        self._stops = StopStrings(stops)

    @property
    def stopped(self) -> bool:
        """A stop string was met: the answer is over."""
        return self._stops.stopped

    def push(self, token: int) -> str:
        return self._stops.push(self._detokenizer.push(token))

    def finish(self) -> str:
        if self.stopped:
            return ""
        return self._stops.push(self._detokenizer.finish()) + self._stops.finish()
