"""A file that somebody names is read only where it is one, of a bounded size, and nothing waits for a pipe's writer."""

import os
from pathlib import Path

import pytest

from pdchecks.given_file import read_given
from pdchecks.policy import PolicyError, read_layer
from pdchecks.waivers import WaiverError, read_waivers


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("file")
    assert read_given(tmp_path / "link", 4) == b"1234"
    with pytest.raises(ValueError, match="larger than 3 bytes"):
        read_given(tmp_path / "link", 3)


def test_what_is_no_file_is_named_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nothing").symlink_to("none")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ValueError, match="not a regular file"):
            read_given(path, 4)
    with pytest.raises(FileNotFoundError):
        read_given(tmp_path / "nothing", 4)


def test_a_policy_or_a_waiver_file_that_is_a_pipe_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PolicyError, match="pipe: not a regular file"):
        read_layer(tmp_path / "pipe")
    with pytest.raises(WaiverError, match="pipe: not a regular file"):
        read_waivers(tmp_path / "pipe")
