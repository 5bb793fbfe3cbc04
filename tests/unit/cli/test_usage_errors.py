"""A wrong command line is told in the form and the words of every other error."""

import pytest
from typer.testing import CliRunner

from pdctl.app import app


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dcotor", "error: no such command `dcotor`"),
        ("inventory shw x", "did you mean `show`?"),
        ("explain", "error: missing argument `ID`"),
        ("doctor --zzz", "error: no such option: `--zzz`"),
        ("doctor --timeout abc", "error: invalid value for `--timeout`: must be a number"),
        ("doctor --timeout 1", "must be at least 5"),
        ("up --threads x", "must be a whole number"),
        ("up --port 99999", "must be at most 65535"),
        ("pair --fail-on bogus", "`bogus` is not one of `warn`, `fatal`"),
        ("pair a b c", "too many arguments"),
        ("policy export", "error: missing option `--switch`. Choose from: sonic, nvue, text"),
    ],
)
def test_a_wrong_command_line_is_an_error_with_a_hint(line: str, said: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2 and result.stdout == ""
    error, hint = result.stderr.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ") and "--help`" in hint
    assert said in result.stderr
    assert "Input should" not in result.stderr


@pytest.mark.parametrize("line", ["", "model"])
def test_without_arguments_a_group_shows_its_help(line: str) -> None:
    assert "Commands:" in (result := CliRunner().invoke(app, line.split())).output or "Start:" in result.output


@pytest.mark.parametrize("line", ["doctor --from x.txt --limit n1", "collect --from x.txt --to x.tar --limit n1"])
def test_a_limit_without_an_inventory_is_refused_and_chooses_nothing_silently(line: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert "`--limit` chooses among the hosts" in str(result.exception)
