from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdctl.app import app
from pdctl.deploy import logs
from pdctl.errors import PdError


def test_a_full_log_is_cut_and_its_predecessors_are_bounded(tmp_path: Path) -> None:
    log = tmp_path / "prefill.log"
    with log.open("a", encoding="utf-8") as unit:
        for generation in range(6):
            unit.write(f"generation {generation}\n" * 100)
            unit.flush()
            assert logs.rotate(log, max_bytes=1000, keep=3)
        unit.write("after\n")
    assert log.read_text(encoding="utf-8") == "after\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"prefill.log{end}" for end in ("", ".1", ".2", ".3")]
    assert (tmp_path / "prefill.log.1").read_text(encoding="utf-8").startswith("generation 5\n")


def test_a_small_or_missing_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "router.log"
    assert not logs.rotate(log, max_bytes=10)
    log.write_text("short\n", encoding="utf-8")
    assert not logs.rotate(log, max_bytes=10)


def test_tail_reaches_into_the_predecessor(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_text("".join(f"{n}\n" for n in range(5)), encoding="utf-8")
    logs.rotate(log, max_bytes=1)
    log.write_text("5\n6\n", encoding="utf-8")
    assert logs.tail(log, 4) == ["3", "4", "5", "6"]
    assert logs.tail(log, 0) == []
    assert logs.tail(tmp_path / "absent.log", 4) == []


def test_tail_of_a_long_log_reads_whole_lines_only(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_text("".join(f"{n:0100}\n" for n in range(3000)), encoding="utf-8")
    assert [int(line) for line in logs.tail(log, 1500)] == list(range(1500, 3000))


def test_follow_yields_new_lines_and_survives_a_cut(tmp_path: Path) -> None:
    log = tmp_path / "prefill.log"
    log.write_text("old\n", encoding="utf-8")
    stream = logs.follow({"prefill": log}, {"prefill": logs.size(log)}, poll_s=0.01)
    with log.open("a", encoding="utf-8") as unit:
        unit.write("new\nhal")
        unit.flush()
        assert next(stream) == ("prefill", "new")
        unit.write("f\n")
        unit.flush()
        assert next(stream) == ("prefill", "half")
        logs.rotate(log, max_bytes=1)
        unit.write("young\n")
        unit.flush()
    assert next(stream) == ("prefill", "young")


def test_what_an_earlier_run_wrote_into_the_same_log_is_told_apart() -> None:
    old, new = '{"ts": 1.0, "event": "ready"}', '{"ts": 3.0, "event": "ready"}'
    assert logs.since([old, "Traceback", old, new, "Traceback"], 2.0) == [new, "Traceback"]
    assert logs.since([old], 2.0) == []
    assert logs.since(["[1, 2]", "no JSON"], 2.0) == ["[1, 2]", "no JSON"]


def test_the_lines_of_several_logs_come_in_the_order_of_their_writing() -> None:
    crash = ['{"ts": 2.0, "event": "crash"}', "Traceback", "RuntimeError"]
    router = ["started by hand", '{"ts": 1.0, "event": "ready"}', '{"ts": 3.0, "event": "lost"}']
    assert logs.by_time({"decode": crash, "router": router}) == [
        ("router", router[0]),
        ("router", router[1]),
        *(("decode", line) for line in crash),
        ("router", router[2]),
    ]


def test_a_part_that_did_not_run_is_told_apart_from_a_deployment_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked = CliRunner().invoke(app, ["logs", "reference"])
    assert isinstance(asked.exception, PdError) and "has no logs here" in str(asked.exception)
    folder = tmp_path / "pdctl" / "deployments" / "local" / "logs"
    folder.mkdir(parents=True)
    (folder / "router.log").write_text("{}\n", encoding="utf-8")
    asked = CliRunner().invoke(app, ["logs", "reference"])
    assert isinstance(asked.exception, PdError) and "no log of `reference`" in str(asked.exception)
    assert asked.exception.hint == "there are logs of router"
    assert CliRunner().invoke(app, ["logs", "router"]).stdout == "{}\n"
