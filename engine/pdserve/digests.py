"""Digests of a model directory: two nodes hold the same model when these are equal, wherever it lies.

Weights are large, so a file's sha256 is kept in the cache directory under its path, size and mtime; nothing is written
into the model directory, which may be read-only or shared.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

# What a config says about its own history, not about the model.
_PROVENANCE = ("_name_or_path", "_model_name_or_path", "transformers_version", "use_cache", "dtype", "torch_dtype")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt")
_READ_BYTES = 8 << 20


@dataclass(frozen=True)
class ModelDigests:
    """Hex sha256. model: weights and config. tokenizer: vocabulary, merges, normalisation; not the chat template."""

    model: str
    tokenizer: str


def model_digests(directory: Path) -> ModelDigests:
    """Raises ValueError when weights or tokenizer are missing, OSError when they cannot be read."""
    weights = sorted(directory.glob("*.safetensors"))
    if not weights:
        raise ValueError(f"{directory}: no .safetensors file")
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    meaning = {key: value for key, value in config.items() if key not in _PROVENANCE}
    return ModelDigests(
        model=_combine(
            [("config", _sha256(_canonical(meaning)))] + [(path.name, file_digest(path)) for path in weights]
        ),
        tokenizer=tokenizer_digest(directory),
    )


def tokenizer_digest(directory: Path) -> str:
    """Raises ValueError when there is no tokenizer, OSError when it cannot be read."""
    files = [path for name in _TOKENIZER_FILES if (path := directory / name).is_file()]
    if not files:
        raise ValueError(f"{directory}: none of {', '.join(_TOKENIZER_FILES)}")
    return _combine([(path.name, file_digest(path)) for path in files])


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, hex; from the cache when path, size and mtime are as they were."""
    stat = path.stat()
    key = _sha256(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode())
    entry = user_cache_path("pdctl") / "digests" / key
    try:
        cached = entry.read_text(encoding="ascii")
        if len(cached) == 64:
            return cached
    except OSError:
        pass
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(_READ_BYTES):
            digest.update(block)
    _remember(entry, digest.hexdigest())
    return digest.hexdigest()


def _remember(entry: Path, digest: str) -> None:
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        part = entry.with_suffix(f".{id(entry)}")
        part.write_text(digest, encoding="ascii")
        part.replace(entry)
    except OSError:
        pass  # a read-only home costs time, not correctness


def _combine(parts: list[tuple[str, str]]) -> str:
    return _sha256(_canonical(parts))


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
