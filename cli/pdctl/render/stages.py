"""One line a stage, with seconds. On a terminal the last one is alive; elsewhere a long wait speaks up at times."""

import os
from typing import TextIO

_SPEAK_EVERY_S = 10.0
_USUAL_WIDTH = 80


class StageLines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._spoke: dict[str, float] = {}

    def waiting(self, name: str, waits_for: str, seconds: float, limit_s: float) -> None:
        """Call it as often as you like while a stage lasts."""
        text = f"  {name:<10} {seconds:6.1f} s  waiting for {waits_for} (at most {limit_s:.0f} s)"
        if self._live:
            self._stream.write(f"\r\x1b[2K{self._cut(text)}")
            self._stream.flush()
        elif seconds - self._spoke.get(name, 0.0) >= _SPEAK_EVERY_S:
            self._spoke[name] = seconds
            self._line(text)

    def done(self, name: str, seconds: float, note: str | None = None) -> None:
        self._line(f"  {name:<10} {seconds:6.1f} s  {note or 'done'}")

    def failed(self, name: str, seconds: float, why: str) -> None:
        self._line(f"  {name:<10} {seconds:6.1f} s  failed: {why}")

    def say(self, text: str) -> None:
        self._line(text)

    def _cut(self, text: str) -> str:
        """What fits in one row: a live line that wraps cannot be written over."""
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            width = 0
        width = width or _USUAL_WIDTH
        return text if len(text) < width else text[: max(width - 4, 0)] + "..."

    def _line(self, text: str) -> None:
        self._stream.write(("\r\x1b[2K" if self._live else "") + text + "\n")
        self._stream.flush()
