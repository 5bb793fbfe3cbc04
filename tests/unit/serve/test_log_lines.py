"""A log line says when in a form for people and in one for machines, and both are the same moment."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from pdserve.logs import log, utc


def test_a_line_has_the_time_as_iso_8601_in_utc_and_as_unix_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    log("ready", role="prefill")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["role"]) == ("ready", "prefill")
    assert line["time"].endswith("Z")
    assert datetime.fromisoformat(line["time"]).timestamp() == pytest.approx(line["ts"], abs=0.002)


def test_the_epoch_is_written_as_everybody_writes_it() -> None:
    assert utc(0.25) == "1970-01-01T00:00:00.250Z"
