import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdctl.app import app


@pytest.fixture
def pdctl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return CliRunner()


def test_the_list_names_licence_and_source_and_whether_it_is_here(pdctl: CliRunner) -> None:
    document = json.loads(pdctl.invoke(app, ["model", "list", "-o", "json"]).stdout)
    (model,) = document["models"]
    assert (document["schema"], model["license"], model["path"]) == ("pdctl.models/1", "Apache-2.0", None)
    assert "not fetched" in pdctl.invoke(app, ["model", "list"]).stdout


def test_the_path_of_a_model_that_is_not_here_is_an_error_with_the_command_that_fetches_it(pdctl: CliRunner) -> None:
    error = pdctl.invoke(app, ["model", "path"]).exception
    assert "pdctl model fetch SmolLM2-135M-Instruct" in error.render() and error.code == 3  # type: ignore[union-attr]


def test_an_unknown_model_is_refused_with_the_known_ones(pdctl: CliRunner) -> None:
    error = pdctl.invoke(app, ["model", "fetch", "gpt-7"]).exception
    assert "SmolLM2-135M-Instruct" in error.render() and error.code == 2  # type: ignore[union-attr]
