"""`pdctl explain`: a check by its ID or by its topic."""

from typer.testing import CliRunner

from pdctl.app import app

RUN = CliRunner()


def test_a_topic_explains_its_check() -> None:
    assert RUN.invoke(app, ["explain", "mtu.netdev"]).stdout == RUN.invoke(app, ["explain", "PD-MTU-001"]).stdout


def test_a_topic_of_several_checks_explains_them_all() -> None:
    said = RUN.invoke(app, ["explain", "gpu.health"]).stdout
    assert "# PD-GPU-005: " in said
    assert "# PD-GPU-007: " in said
    assert RUN.invoke(app, ["explain", "gpu.health", "-o", "json"]).exit_code != 0
