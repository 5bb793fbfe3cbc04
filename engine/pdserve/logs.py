"""One JSON object per line on stderr: `time` (ISO 8601, UTC), `ts` (the same in Unix seconds), `event`, and the event's
own fields.
"""

import json
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

_lock = threading.Lock()


class _Lines(logging.Handler):
    """What libraries say through `logging`, as events of the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        trace = {"trace": self.format(record)} if record.exc_info else {}
        log("message", level=record.levelname.lower(), logger=record.name, text=record.getMessage(), **trace)


def log_library_messages() -> None:
    """Once a process, at its start."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Lines()], force=True)
    logging.captureWarnings(True)


def utc(seconds: float) -> str:
    """Unix seconds as `2026-11-30T12:03:15.250Z`, which sorts as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log(event: str, **fields: Any) -> None:
    """Never prompts, tokens or secrets: ids, figures and reasons."""
    now = time.time()
    stamp = {"time": utc(now), "ts": round(now, 3), "event": event}
    line = json.dumps({**stamp, **fields}, ensure_ascii=False, default=str)
    with _lock:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
