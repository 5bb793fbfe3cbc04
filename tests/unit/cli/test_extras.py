"""A command that needs an extra says so at once, with the command that installs it here."""

import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdctl import extras
from pdctl.app import app
from pdctl.errors import UsageError


class Installed:
    """What importlib.metadata says of an installed pdctl."""

    def __init__(self, *requires: str, url: str | None = None) -> None:
        self.requires = list(requires)
        self._url = url

    def read_text(self, name: str) -> str | None:
        return f'{{"url": "{self._url}"}}' if self._url and name == "direct_url.json" else None


@pytest.fixture
def without_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.distribution
    pdctl = Installed("typer>=0.26", "no-such-package-as-this>=1; extra == 'engine'", "pytest>=8; extra == 'dev'")
    monkeypatch.setattr(metadata, "distribution", lambda name: pdctl if name == "pdctl" else real(name))


@pytest.mark.usefixtures("without_engine")
@pytest.mark.parametrize("argv", [["demo"], ["up"], ["model", "fetch"]])
def test_without_the_engine_the_command_ends_before_it_begins(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, argv)
    error = result.exception
    assert isinstance(error, UsageError)
    assert error.message == "this needs the extra `engine`, which is not installed"
    assert "no-such-package-as-this" in error.render() and "typer" not in error.render()
    assert result.output == ""


@pytest.mark.usefixtures("without_engine")
def test_an_extra_that_is_there_is_not_complained_about() -> None:
    extras.require("dev")


def test_the_hint_is_the_command_for_where_pdctl_came_from(tmp_path: Path) -> None:
    wheel = tmp_path / "pdctl-1-py3-none-any.whl"
    assert extras.how_to_install("engine", None, wheel) == f"{sys.executable} -m pip install '{wheel}[engine]'"
    assert extras.how_to_install("engine", tmp_path, None) == f"{sys.executable} -m pip install -e '{tmp_path}[engine]'"
    own = Path(sys.prefix).parent
    if Path(sys.prefix).name == ".venv":
        assert extras.how_to_install("engine", own, None) == f"{own}/scripts/setup engine"
    assert "WHEEL[engine]" in extras.how_to_install("engine", None, None)
