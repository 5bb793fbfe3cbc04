"""One JSON object per line on stderr: `ts` (Unix seconds), `event`, and the event's own fields."""

import json
import sys
import threading
import time
from typing import Any

_lock = threading.Lock()


def log(event: str, **fields: Any) -> None:
    """Never prompts, tokens or secrets: ids, figures and reasons."""
    line = json.dumps({"ts": round(time.time(), 3), "event": event, **fields}, ensure_ascii=False, default=str)
    with _lock:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
