"""What `--model` names: a local Hugging Face directory, or an embedded model (fetched when it is not there)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdctl.paths import cache_dir


@dataclass(frozen=True, slots=True)
class ServedModel:
    """path: a directory with config, weights and tokenizer. name: what clients ask for."""

    path: Path
    name: str


def resolve(model: str | None, say: Callable[[str], None]) -> ServedModel:
    """The model to serve; the embedded one for None. Raises PdError or UsageError when it cannot be had."""
    from pdserve import embedded

    wanted = embedded.DEFAULT if model is None else embedded.find(model)
    if model is not None and wanted is None:
        path = Path(model).expanduser().absolute()
        check_directory(path)
        return ServedModel(path, path.name)
    assert wanted is not None
    with explained():
        return ServedModel(embedded.fetch(wanted, cache_dir(), say), wanted.name)


def located(model: str) -> str:
    """Where the model named stands or would stand; nothing is fetched or checked."""
    from pdserve import embedded

    found = embedded.find(model)
    return str(Path(model).expanduser().absolute() if found is None else found.directory(cache_dir()))


def check_directory(path: Path) -> None:
    """Raises UsageError, naming what is missing, unless `path` looks like a Hugging Face model directory."""
    if not path.is_dir():
        raise UsageError(
            f"`{path}` is not a directory",
            detail="`--model` takes a local Hugging Face directory or the name of an embedded model",
            hint="`pdctl model list` names the embedded ones",
        )
    missing = [name for name in ("config.json", "tokenizer.json") if not (path / name).is_file()]
    if not any(path.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise UsageError(
            f"`{path}` is not a complete model: no {', '.join(missing)}",
            hint="download the whole model; weights as safetensors, tokenizer as tokenizer.json",
        )
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path / 'config.json'}` cannot be read", detail=str(error)) from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise UsageError(f"`{path / 'config.json'}` names no model_type", hint="is it a Hugging Face config?")


@contextmanager
def explained() -> Iterator[None]:
    """An unavailable model, as an error for the user."""
    from pdserve.embedded import ModelUnavailable

    try:
        yield
    except ModelUnavailable as error:
        raise PdError(error.message, detail=error.detail, hint=error.hint, code=ExitCode.PARTLY) from error
