"""Two directories with the same model have the same digests; any change of weights, config or tokenizer shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pdserve.digests import ModelDigests, file_digest, model_digests


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(directory: Path, weights: bytes = b"w", **config: object) -> ModelDigests:
    directory.mkdir(exist_ok=True)
    (directory / "model.safetensors").write_bytes(weights)
    (directory / "tokenizer.json").write_text("{}", encoding="utf-8")
    (directory / "config.json").write_text(json.dumps({"model_type": "llama", **config}), encoding="utf-8")
    return model_digests(directory)


def test_place_and_provenance_do_not_matter(tmp_path: Path) -> None:
    first = write(tmp_path / "a", _name_or_path="here", transformers_version="5.1", dtype="float32")
    assert first == write(tmp_path / "b", _name_or_path="there", transformers_version="5.2")


def test_weights_config_and_tokenizer_matter_each(tmp_path: Path) -> None:
    base = write(tmp_path / "a")
    assert write(tmp_path / "b", b"v").model != base.model
    assert write(tmp_path / "c", rope_theta=1).model != base.model
    write(tmp_path / "d")
    (tmp_path / "d" / "tokenizer.json").write_text("[]", encoding="utf-8")
    changed = model_digests(tmp_path / "d")
    assert changed.tokenizer != base.tokenizer and changed.model == base.model


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    first = file_digest(file)
    (entry,) = (cache / "pdctl" / "digests").iterdir()
    entry.write_text("f" * 64, encoding="ascii")
    assert file_digest(file) == "f" * 64, "the cache was not used"
    os.utime(file, ns=(1, 1))
    assert file_digest(file) == first


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file in the way", encoding="utf-8")
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    assert len(file_digest(file)) == 64


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
def test_a_missing_part_is_named(missing: str, tmp_path: Path) -> None:
    write(tmp_path / "a")
    (tmp_path / "a" / missing).unlink()
    with pytest.raises(ValueError, match=r"safetensors|tokenizer"):
        model_digests(tmp_path / "a")
