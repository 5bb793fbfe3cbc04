"""Progress of a start, on a terminal and in a log."""

import fcntl
import io
import os
import pty
import struct
import termios

import pytest

from pdctl.render.stages import StageLines

LONG = "the canary's known tokens, which one process computes once for this model and this machine"


def _on_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    keyboard, screen = pty.openpty()
    try:
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with os.fdopen(os.dup(screen), "w", encoding="utf-8") as stream:
            lines = StageLines(stream)
            lines.waiting("reference", LONG, 3.0, 300.0)
            lines.failed("reference", 4.0, LONG)
        shown = b""
        # The terminal hands over in pieces; only the lasting line ends with a newline.
        while not shown.endswith(b"\n"):
            shown += os.read(keyboard, 4096)
        return shown.decode()
    finally:
        os.close(screen)
        os.close(keyboard)


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_live_line_fits_its_terminal_and_a_lasting_one_is_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, lasting = _on_a_terminal(columns, monkeypatch).split("\r\x1b[2K")[1:]
    assert len(live) < columns and live.endswith("...")
    assert LONG in lasting


def test_a_line_that_fits_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    live = _on_a_terminal(200, monkeypatch).split("\r\x1b[2K")[1]
    assert live.endswith(f"waiting for {LONG} (at most 300 s)")


def test_a_log_gets_whole_lines_without_terminal_codes() -> None:
    stream = io.StringIO()
    lines = StageLines(stream)
    lines.waiting("reference", LONG, 3.0, 300.0)
    lines.waiting("reference", LONG, 12.0, 300.0)
    assert stream.getvalue() == f"  reference    12.0 s  waiting for {LONG} (at most 300 s)\n"
