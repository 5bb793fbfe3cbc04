"""The deployment's secret in a file: read when it changes, rotated without a gap, never readable by others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pdserve.secret_file import SecretFile, TooManySecrets, rotated
from pdwire import Secret

OLD, NEW = Secret(bytes(32)), Secret(bytes(range(32)))


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(mode)
    fresh.replace(path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "secret", OLD.value.hex() + "\n")


def test_a_rotation_is_noticed_and_both_secrets_are_taken_until_the_window_ends(path: Path) -> None:
    file = SecretFile(path)
    old_token = file.control_token
    assert file.secrets == [OLD]
    write(path, rotated(path.read_text(encoding="utf-8"), NEW, time.time(), 1.5))
    assert file.secrets == [NEW, OLD]
    assert file.control_token != old_token
    assert file.takes_control_token(old_token) and file.takes_control_token(file.control_token)
    end = time.monotonic() + 10
    while file.secrets != [NEW]:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not file.takes_control_token(old_token)


def test_a_second_rotation_does_not_prolong_the_first_secret(path: Path) -> None:
    first = rotated(path.read_text(encoding="utf-8"), NEW, 1000.0, 100.0)
    third = Secret(b"3" * 32)
    second = rotated(first, third, 1050.0, 500.0)
    assert [line.split(" until ")[1:] for line in second.splitlines()] == [[], ["1550"], ["1100"]]
    assert len(rotated(second, OLD, 2000.0, 5.0).splitlines()) == 2, "what has run out is gone"


def test_no_secret_is_dropped_before_the_end_that_it_was_promised(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for number in range(3):
        text = rotated(text, Secret(bytes([number]) * 32), 1000.0 + number, 100.0)
    assert OLD.value.hex() in text and len(text.splitlines()) == 4
    with pytest.raises(TooManySecrets, match="4 are taken already, one of them for 90 s more"):
        rotated(text, NEW, 1010.0, 100.0)
    assert len(rotated(text, NEW, 1100.5, 100.0).splitlines()) == 4, "the first has run out"
    assert rotated(text, NEW, 1010.0, 0.0).splitlines() == [NEW.value.hex()]


def test_a_window_is_never_shorter_than_it_was_said_to_be(path: Path) -> None:
    assert rotated(path.read_text(encoding="utf-8"), NEW, 1000.5, 100.0).splitlines()[1].endswith(" until 1101")


def test_with_a_window_of_nothing_only_the_new_one_is_taken(path: Path) -> None:
    write(path, rotated(path.read_text(encoding="utf-8"), NEW, time.time(), 0.0))
    assert SecretFile(path).secrets == [NEW]


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (OLD.value.hex(), 0o644, "must be of mode 0600"),
        (OLD.value.hex(), 0o640, "must be of mode 0600"),
        ("", 0o600, "1 to 4 lines"),
        ("\n", 0o600, "line 1 is not a secret"),
        ("secret\n", 0o600, "line 1 is not a secret: 64 hex digits"),
        (OLD.value.hex()[:-1], 0o600, "line 1 is not a secret"),
        (OLD.value.hex() + "\n" + NEW.value.hex() + " until tomorrow", 0o600, "line 2 is not a secret"),
        (OLD.value.hex() + " until 5", 0o600, "the first secret must have no end"),
        ((OLD.value.hex() + "\n") * 5, 0o600, "1 to 4 lines"),
        ("é" * 64, 0o600, "line 1 is not a secret"),
        ("a" * 100_000, 0o600, "1 to 4 lines"),
    ],
)
def test_a_file_that_is_no_secret_or_that_others_can_read_is_refused(
    text: str, mode: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        SecretFile(write(tmp_path / "secret", text, mode))
    assert OLD.value.hex() not in str(refusal.value)


def test_no_file_is_an_error_and_a_directory_too(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(OSError):
            SecretFile(path)


@pytest.mark.parametrize("spoil", ["malformed", "readable by others", "gone"])
def test_a_file_that_goes_bad_leaves_what_was_read_last(path: Path, spoil: str) -> None:
    file = SecretFile(path)
    if spoil == "gone":
        path.unlink()
    else:
        write(path, NEW.value.hex() if spoil != "malformed" else "x", 0o644 if spoil != "malformed" else 0o600)
    assert file.secrets == [OLD]
    write(path, NEW.value.hex())
    assert file.secrets == [NEW]


def test_the_token_tells_nothing_about_the_secret(path: Path) -> None:
    token = SecretFile(path).control_token
    assert len(token) == 64 and token != OLD.value.hex() and OLD.value.hex()[:16] not in token
