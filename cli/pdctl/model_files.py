"""Reads what a description of a pair points to on this machine: config.json, and digests of what lies beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdchecks.pair.describe import ModelFiles
    from pdchecks.unknown import Unknown

_MAX_CONFIG_BYTES = 8 << 20
LONG_READ_BYTES = 4 << 30


def model_loader(base: Path, notice: Callable[[str], None]) -> Callable[[str], ModelFiles]:
    """base: what relative paths are relative to. notice: told once before a read of weights that takes long.

    The loader raises DescriptionError. A path that both sides name is read once.
    """
    seen: dict[Path, ModelFiles] = {}

    def load(named: str) -> ModelFiles:
        path = base / Path(named).expanduser()
        if path not in seen:
            seen[path] = _read(path, named, notice)
        return seen[path]

    return load


def _read(path: Path, named: str, notice: Callable[[str], None]) -> ModelFiles:
    from pdchecks.pair.describe import ModelFiles
    from pdchecks.unknown import Unknown

    if path.is_dir():
        return ModelFiles(_config(path / "config.json", named), *_digests(path, notice))
    unread = Unknown(f"only {path.name} was given, not the model's directory")
    return ModelFiles(_config(path, named), unread, unread)


def _config(path: Path, named: str) -> dict[str, Any]:
    from pdchecks.pair.command import DescriptionError

    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise DescriptionError(f"{path} is too large for a config.json")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DescriptionError(f"`{named}`: no {path} on this machine; copy the model's config.json here") from None
    except (OSError, ValueError) as error:
        raise DescriptionError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise DescriptionError(f"{path}: expected a JSON object")
    return value


def _digests(directory: Path, notice: Callable[[str], None]) -> tuple[str | Unknown, str | Unknown]:
    from pdserve.digests import model_digests, tokenizer_digest

    size = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    if size > LONG_READ_BYTES:
        notice(f"{directory}: hashing {size / 1e9:.0f} GB of weights; remembered for the next time")
    return _digest(lambda: model_digests(directory).model), _digest(lambda: tokenizer_digest(directory))


def _digest(compute: Callable[[], str]) -> str | Unknown:
    from pdchecks.unknown import Unknown

    try:
        return f"sha256:{compute()[:16]}"
    except (OSError, ValueError) as error:
        return Unknown(str(error))
