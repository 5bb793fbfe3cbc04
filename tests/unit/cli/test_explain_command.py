"""`pdctl explain`: a check by its ID or by its topic."""

from typer.testing import CliRunner

from pdctl.app import app
from pdctl.errors import UsageError

RUN = CliRunner()


def test_a_topic_explains_its_check() -> None:
    assert RUN.invoke(app, ["explain", "mtu.active"]).stdout == RUN.invoke(app, ["explain", "PD-MTU-002"]).stdout


def test_a_topic_of_several_checks_explains_them_all() -> None:
    said = RUN.invoke(app, ["explain", "gpu.health"]).stdout
    assert "# PD-GPU-005: " in said
    assert "# PD-GPU-007: " in said
    assert RUN.invoke(app, ["explain", "gpu.health", "-o", "json"]).exit_code != 0


def test_a_part_of_a_name_is_answered_with_all_that_have_it() -> None:
    asked = RUN.invoke(app, ["explain", "mtu"])
    assert isinstance(asked.exception, UsageError)
    assert asked.exception.hint
    assert "PD-MTU-001, PD-MTU-002, PD-MTU-003, PD-MTU-004" in asked.exception.hint
    assert "`pdctl checks list`" in asked.exception.hint
