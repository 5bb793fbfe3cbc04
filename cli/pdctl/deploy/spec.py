"""`pdctl.yaml`: what to deploy. Flags win over the file, the file over the defaults; unknown keys are refused."""

import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pdchecks import yaml_text
from pdchecks.wrong_value import wrong_value
from pdctl.deploy.restart import RestartPolicy
from pdctl.errors import UsageError

DEFAULT_FILE = Path("pdctl.yaml")
DType = Literal["float32", "bfloat16", "float16"]
NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,31}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RouterSpec(_Strict):
    """port 0 picks a free one. request_deadline_s: longest wait for a next token, unless the request says its own."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    request_deadline_s: float = Field(default=30.0, gt=0, le=86400)


class PoolSpec(_Strict):
    """kind: gpu_kind, by default what this host has. threads: CPU threads, by default half of the usable cores."""

    kind: str | None = None
    threads: int | None = Field(default=None, ge=1, le=1024)


class Pools(_Strict):
    prefill: PoolSpec = PoolSpec()
    decode: PoolSpec = PoolSpec()


class DeploymentSpec(_Strict):
    """model: a local Hugging Face directory or an embedded model. dtype: by default float32 on CPU, else bfloat16.

    transport: of KV; shm takes pools of one host.
    """

    name: str = Field(default="local", pattern=NAME_PATTERN)
    model: str | None = None
    dtype: DType | None = None
    engine: Literal["torch"] = "torch"
    transport: Literal["tcp", "shm"] = "tcp"
    security: Literal["authenticated", "encrypted"] = "authenticated"
    pools: Pools = Pools()
    router: RouterSpec = RouterSpec()
    restart: RestartPolicy = RestartPolicy()
    timeout_s: float = Field(default=300.0, gt=0, le=86400)


def checked_name(name: str) -> str:
    """The name, if it can be one of a deployment; it becomes a directory. Raises UsageError."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(f"`{name}` cannot name a deployment", hint="small letters, digits and dashes, at most 32")
    return name


def load(file: Path | None, flags: dict[str, Any]) -> DeploymentSpec:
    """The deployment that file and flags describe together.

    file: None reads `pdctl.yaml` here if there is one. flags: dotted keys (`router.port`); None means not given.
    Raises UsageError, naming file and key.
    """
    source = file if file is not None else DEFAULT_FILE if DEFAULT_FILE.is_file() else None
    document = {} if source is None else _read(source)
    for key, value in flags.items():
        if value is not None:
            _put(document, key.split("."), value)
    try:
        return DeploymentSpec.model_validate(document)
    except ValidationError as error:
        lines = [f"`{'.'.join(map(str, each['loc'])) or 'the file'}` {wrong_value(each)}" for each in error.errors()]
        raise UsageError(
            f"`{source or 'the command line'}` does not describe a deployment", detail="\n".join(lines)
        ) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml_text.load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"`{file}` is not YAML", detail=str(error)) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"`{file}` must hold keys and values, not a {type(document).__name__}")
    return document


def _put(document: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = document.get(key)
        document[key] = dict(inner) if isinstance(inner, dict) else {}
        document = document[key]
    document[keys[-1]] = value
