"""YAML that nobody can read is a clear error in every command that takes a file of it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdctl.app import app

BLOCK = "=== cmd: uname -r\n=== rc: 0\n6.1.0\n=== end\n"
FILE, EVIDENCE = "given.yml", "n1.txt"


# Nine mappings, each nine times the one before.
BOMB = "k0: &k0 {z: 1}\n" + "".join(
    f"k{n}: &k{n} {{{', '.join(f'a{m}: *k{n - 1}' for m in range(9))}}}\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    "text", ["expires: 2026-13-01\n", "[" * 5_000, "{", "a: \x00", "a: &a {b: *a}\nfabric: *a\n", BOMB]
)
@pytest.mark.parametrize(
    "command",
    [
        ("doctor", "--from", EVIDENCE, "--waivers", FILE),
        ("doctor", "--from", EVIDENCE, "--policy", FILE),
        ("policy", "show", "--policy", FILE),
        ("pair", FILE),
        ("up", "--file", FILE),
    ],
)
def test_a_file_that_is_no_yaml_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], text: str
) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    (tmp_path / EVIDENCE).write_text(BLOCK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command)
    assert type(result.exception).__name__ == "UsageError"
    assert FILE in f"{result.exception} {getattr(result.exception, 'detail', '')}"
